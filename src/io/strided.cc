#include "src/io/strided.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>

#include "src/base/checked.h"

namespace pith {
namespace {

constexpr std::int64_t kStridedWindow = 256 << 10;
// A read costs as much as copying this many bytes: smaller gaps are read along.
constexpr std::int64_t kMaxGap = 4 << 10;

// One axis of a box: where its steps lead in the source and in the output, in elements.
struct Axis {
  std::int64_t extent;
  std::int64_t from;
  std::int64_t to;
};

template <typename T>
void copy_axes(const std::byte* in, std::byte* out, std::span<const Axis> axes) {
  const Axis axis = axes.front();
  if (axes.size() > 1) {
    for (std::int64_t i = 0; i < axis.extent; ++i) {
      copy_axes<T>(in + i * axis.from * static_cast<std::int64_t>(sizeof(T)),
                   out + i * axis.to * static_cast<std::int64_t>(sizeof(T)),
                   axes.subspan(1));
    }
    return;
  }
  for (std::int64_t i = 0; i < axis.extent; ++i) {
    std::memcpy(out + i * axis.to * static_cast<std::int64_t>(sizeof(T)),
                in + i * axis.from * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  }
}

// Gathers boxes of a view: reads parts of the source into a window, and elements from
// there.
class Gather {
 public:
  explicit Gather(const StridedView& view) : view_(view), item_(view.item_bytes) {}

  // Elements [first, last) of the sub-tensor of all axes from `axis` on that begins at
  // element `from`: a head and a tail inside one index each, and a box between them.
  Status range(std::size_t axis, std::int64_t from, std::int64_t first, std::int64_t last,
               std::byte* out) {
    if (first == last) return {};
    if (axis == view_.extents.size()) return box(axis, 0, from, out);
    std::int64_t inner = 1;
    for (std::size_t i = axis + 1; i < view_.extents.size(); ++i) {
      inner *= view_.extents[i];
    }
    const std::int64_t stride = view_.strides[axis];
    std::int64_t index = first / inner;
    if (first % inner != 0) {
      const std::int64_t end = std::min(last, (index + 1) * inner);
      PITH_OK(range(axis + 1, from + index * stride, first % inner, end - index * inner,
                    out));
      out += (end - first) * item_;
      first = end;
      ++index;
    }
    const std::int64_t whole = (last - first) / inner;
    if (whole > 0) {
      PITH_OK(box(axis, whole, from + index * stride, out));
      out += whole * inner * item_;
      first += whole * inner;
      index += whole;
    }
    if (first == last) return {};
    return range(axis + 1, from + index * stride, 0, last - first, out);
  }

 private:
  // `count` indices of `axis`, all of the axes behind it. Without axes: one element.
  Status box(std::size_t axis, std::int64_t count, std::int64_t from, std::byte* out) {
    axes_.clear();
    std::int64_t to = 1;
    for (std::size_t i = view_.extents.size(); i-- > axis;) {
      const std::int64_t extent = i == axis ? count : view_.extents[i];
      const std::int64_t stride = view_.strides[i];
      if (extent != 1) {
        // Steps that continue the axis behind it, in the source as in the output.
        if (!axes_.empty() && stride == axes_.back().extent * axes_.back().from &&
            to == axes_.back().extent * axes_.back().to) {
          axes_.back().extent *= extent;
        } else {
          axes_.push_back({extent, stride, to});
        }
      }
      to *= extent;
    }
    // Far steps first: reads go forward.
    std::stable_sort(axes_.begin(), axes_.end(),
                     [](const Axis& a, const Axis& b) { return a.from > b.from; });
    return read(axes_, from, out);
  }

  // Bytes from the first to behind the last element of a box.
  [[nodiscard]] std::int64_t span_of(std::span<const Axis> axes) const {
    std::int64_t last = 0;
    for (const Axis& axis : axes) last += (axis.extent - 1) * axis.from;
    return (last + 1) * item_;
  }

  Status read(std::span<const Axis> axes, std::int64_t from, std::byte* out) {
    if (axes.empty()) return fetch(from, {out, static_cast<std::size_t>(item_)});
    const Axis axis = axes.front();
    const std::span<const Axis> rest = axes.subspan(1);
    if (rest.empty() && axis.from == 1 && axis.to == 1) {
      return fetch(from, {out, static_cast<std::size_t>(axis.extent * item_)});
    }
    const std::int64_t rest_span = span_of(rest);
    const std::int64_t step = axis.from * item_;
    // As many steps as the window holds, if what lies between them is worth reading.
    std::int64_t together = 0;
    if (rest_span <= kStridedWindow && step - rest_span <= kMaxGap) {
      together = step == 0 ? axis.extent : (kStridedWindow - rest_span) / step + 1;
    }
    for (std::int64_t i = 0; i < axis.extent;) {
      if (together == 0) {
        PITH_OK(read(rest, from + i * axis.from, out + i * axis.to * item_));
        ++i;
        continue;
      }
      const std::int64_t n = std::min(together, axis.extent - i);
      PITH_OK(read_window({n, axis.from, axis.to}, rest, from + i * axis.from,
                          out + i * axis.to * item_));
      i += n;
    }
    return {};
  }

  Status read_window(Axis axis, std::span<const Axis> rest, std::int64_t from,
                     std::byte* out) {
    std::vector<Axis>& axes = window_axes_;
    axes.assign(1, axis);
    axes.insert(axes.end(), rest.begin(), rest.end());
    const auto bytes = static_cast<std::size_t>(span_of(axes));
    if (window_ == nullptr) window_.reset(new std::byte[kStridedWindow]);
    PITH_OK(fetch(from, {window_.get(), bytes}));
    // The output is larger than the window: it is written in its own order.
    std::sort(axes.begin(), axes.end(),
              [](const Axis& a, const Axis& b) { return a.to > b.to; });
    switch (item_) {
      case 1:
        copy_axes<std::uint8_t>(window_.get(), out, axes);
        break;
      case 2:
        copy_axes<std::uint16_t>(window_.get(), out, axes);
        break;
      case 4:
        copy_axes<std::uint32_t>(window_.get(), out, axes);
        break;
      default:
        copy_axes<std::uint64_t>(window_.get(), out, axes);
    }
    return {};
  }

  Status fetch(std::int64_t from, std::span<std::byte> out) {
    return view_.source->read(view_.begin + static_cast<std::uint64_t>(from * item_),
                              out);
  }

  const StridedView& view_;
  const std::int64_t item_;
  std::vector<Axis> axes_;
  std::vector<Axis> window_axes_;
  std::unique_ptr<std::byte[]> window_;
};

}  // namespace

std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> extents) {
  std::vector<std::int64_t> strides(extents.size());
  std::int64_t step = 1;
  for (std::size_t i = extents.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<std::int64_t>(extents[i], 1);
  }
  return strides;
}

std::vector<std::int64_t> fortran_strides(std::span<const std::int64_t> extents) {
  std::vector<std::int64_t> strides(extents.size());
  std::int64_t step = 1;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    strides[i] = step;
    step *= std::max<std::int64_t>(extents[i], 1);
  }
  return strides;
}

bool is_row_major(const StridedView& view) {
  const auto empty = [](std::int64_t extent) { return extent == 0; };
  if (std::any_of(view.extents.begin(), view.extents.end(), empty)) return true;
  const std::vector<std::int64_t> expected = row_major_strides(view.extents);
  for (std::size_t i = 0; i < view.extents.size(); ++i) {
    if (view.extents[i] != 1 && view.strides[i] != expected[i]) return false;
  }
  return true;
}

bool view_fits(std::int64_t offset, std::span<const std::int64_t> extents,
               std::span<const std::int64_t> strides, std::int64_t count) {
  bool empty = false;
  CheckedSize last = CheckedSize::from_signed(offset);
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const CheckedSize extent = CheckedSize::from_signed(extents[i]);
    const CheckedSize stride = CheckedSize::from_signed(strides[i]);
    if (!extent.valid() || !stride.valid()) return false;
    empty = empty || extents[i] == 0;
    if (extents[i] != 0) last = last + (extent - 1) * stride;
  }
  if (empty) return offset >= 0;
  return count > 0 && last.at_most(static_cast<std::uint64_t>(count) - 1);
}

Status read_strided(const StridedView& view, std::int64_t first, std::int64_t count,
                    std::span<std::byte> out) {
  assert(std::ssize(out) == count * view.item_bytes);
  return Gather(view).range(0, 0, first, first + count, out.data());
}

}  // namespace pith
