#include "pith/codec/codec.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "arrays.h"
#include "module.h"
#include "pith/codec/blockwise.h"
#include "pith/codec/top_k.h"

namespace pith::python {

using nb::arg;

namespace {

constexpr Word<BlockScales> kScales[] = {{"auto", BlockScales::kAuto},
                                         {"f16", BlockScales::kF16}};

// Codecs are shared with the ErrorFeedback that uses them.
struct AnyCodec {
  std::shared_ptr<const Codec> codec;
};
struct Blockwise : AnyCodec {};
struct TopK : AnyCodec {};

nb::bytes to_bytes(const std::vector<std::byte>& message) {
  return nb::bytes(message.data(), message.size());
}

Array new_values(std::span<const std::byte> message, std::int64_t max_elements) {
  const MessageInfo info = value(message_info(message));
  if (info.elements > max_elements) {
    raise(Status::invalid_argument("message: it has " + std::to_string(info.elements) +
                                   " elements, more than max_elements, " +
                                   std::to_string(max_elements)));
  }
  const Output<float> out(value(Shape::make({info.elements})));
  unlocked([&] { return decompress(message, out.span()); });
  return out.array();
}

void add_codecs(nb::module_& m) {
  nb::class_<AnyCodec>(m, "Codec",
                       "Turns values into a message: BlockwiseCodec or TopKCodec.")
      .def_prop_ro("name", [](const AnyCodec& c) { return c.codec->name(); })
      .def(
          "max_message_bytes",
          [](const AnyCodec& c, std::int64_t elements) {
            return value(c.codec->max_message_bytes(elements));
          },
          arg("elements"), "Bytes that a message of so many values has at most.")
      .def(
          "compress",
          [](const AnyCodec& c, nb::handle x) {
            const Floats values(x, "x");
            std::vector<std::byte> message;
            unlocked([&] { return c.codec->compress(values.span(), message); });
            return to_bytes(message);
          },
          arg("x"), "The bytes on the wire. NotFinite names the index.")
      .def("__repr__",
           [](const AnyCodec& c) { return "<pith codec " + c.codec->name() + ">"; });
  nb::class_<Blockwise, AnyCodec>(
      m, "BlockwiseCodec",
      "8-bit codes in blocks, each with a scale of its own.\n\n"
      ">>> import numpy as np\n"
      ">>> codec = pith.BlockwiseCodec(64)\n"
      ">>> message = codec.compress(np.ones(1000, np.float32))\n"
      ">>> round(pith.message_info(message).ratio, 1)\n"
      "3.7")
      .def(
          "__init__",
          [](Blockwise* self, std::int64_t block_size) {
            new (self) Blockwise{{value(BlockwiseCodec::make(block_size))}};
          },
          arg("block_size") = 256);
  nb::class_<TopK, AnyCodec>(
      m, "TopKCodec",
      "The values of largest magnitude with their indices.\n\n"
      ">>> message = pith.TopKCodec(0.5).compress([1.0, -4.0, 3.0, 0.5])\n"
      ">>> pith.decompress(message)\n"
      "array([ 0., -4.,  3.,  0.], dtype=float32)")
      .def(
          "__init__",
          [](TopK* self, double fraction) {
            new (self) TopK{{value(TopKCodec::make(fraction))}};
          },
          arg("fraction"));
  using Feedback = Guarded<ErrorFeedback>;
  nb::class_<Feedback>(
      m, "ErrorFeedback",
      "Adds what the last messages lost to the next one: nothing is lost in the "
      "sum.\n\n"
      ">>> sender = pith.ErrorFeedback(pith.TopKCodec(0.5))\n"
      ">>> pith.decompress(sender.compress([1.0, 3.0]))\n"
      "array([0., 3.], dtype=float32)\n"
      ">>> sender.residual\n"
      "array([1., 0.], dtype=float32)")
      .def(
          "__init__",
          [](Feedback* self, const AnyCodec& codec) { new (self) Feedback(codec.codec); },
          arg("codec"))
      .def(
          "compress",
          [](Feedback& self, nb::handle x) {
            const Floats values(x, "x");
            std::vector<std::byte> message;
            check(self.with(
                [&](ErrorFeedback& f) { return f.compress(values.span(), message); }));
            return to_bytes(message);
          },
          arg("x"),
          "The message of x + residual. The first call sets the number of values.")
      .def_prop_ro(
          "residual",
          [](Feedback& self) {
            const auto copy = self.with([](ErrorFeedback& f) {
              return std::vector<float>(f.residual().begin(), f.residual().end());
            });
            return array_of<float>(copy);
          },
          nb::sig("def residual(self) -> numpy.ndarray"))
      .def("reset",
           [](Feedback& self) { self.with([](ErrorFeedback& f) { f.reset(); }); });
}

void add_messages(nb::module_& m) {
  nb::class_<MessageInfo>(m, "MessageInfo", "The header of a message.")
      .def_prop_ro("kind",
                   [](const MessageInfo& i) {
                     return i.kind == MessageKind::kBlockwise ? "blockwise" : "top_k";
                   })
      .def_ro("elements", &MessageInfo::elements, "floats it decodes to")
      .def_ro("stored", &MessageInfo::stored, "floats it has codes or values for")
      .def_ro("message_bytes", &MessageInfo::message_bytes, "header and payload")
      .def_prop_ro("ratio", &MessageInfo::ratio, "4 * elements / message_bytes")
      .def("__repr__", [](const MessageInfo& i) {
        return std::string("MessageInfo(") +
               (i.kind == MessageKind::kBlockwise ? "blockwise" : "top_k") + ", " +
               std::to_string(i.elements) + " elements, " +
               std::to_string(i.message_bytes) + " bytes)";
      });
  m.def(
      "message_info",
      [](nb::handle message) {
        const Input input(message, "message");
        return value(message_info(input.bytes()));
      },
      arg("message"),
      "Reads the header only. Corrupt if it is not one of such a message.");
  m.def(
      "decompress",
      [](nb::handle message, nb::handle out, std::int64_t max_elements) {
        const Input input(message, "message");
        if (out.is_none()) return new_values(input.bytes(), max_elements);
        const InOut values(out, "out", true);
        unlocked([&] { return decompress(input.bytes(), values.span()); });
        return values.array();
      },
      arg("message"), arg("out").none() = nb::none(), nb::kw_only(),
      arg("max_elements") = std::int64_t{1} << 32,
      nb::sig("def decompress(message: object, out: object | None = None, *, "
              "max_elements: int = "
              "4294967296) -> numpy.ndarray"),
      "Decodes a message of any kind, into `out` if that is given.\n\n"
      "Corrupt if a byte is missing, changed or surplus.");
}

void add_codes(nb::module_& m) {
  m.def(
      "blockwise_compress",
      [](nb::handle x, std::int64_t block_size, const std::string& scales) {
        const BlockwiseOptions options{.block_size = block_size,
                                       .scales = from_word(kScales, "scales", scales)};
        const Floats values(x, "x");
        const BlockwiseCodes codes =
            unlocked([&] { return blockwise_compress(values.span(), options); });
        if (codes.scale_type == DType::kF32) {
          return nb::make_tuple(array_of<std::int8_t>(codes.codes),
                                array_of<float>(codes.scales_f32));
        }
        const NewArray half(
            DType::kF16,
            value(Shape::make({static_cast<std::int64_t>(codes.scales_f16.size())})));
        std::memcpy(half.bytes().data(), codes.scales_f16.data(), half.bytes().size());
        return nb::make_tuple(array_of<std::int8_t>(codes.codes), half.array());
      },
      arg("x"), arg("block_size") = 256, arg("scales") = "auto",
      nb::sig("def blockwise_compress(x: object, block_size: int = 256, scales: str = "
              "'auto') -> "
              "tuple[numpy.ndarray, numpy.ndarray]"),
      "(codes, scales) of consecutive blocks. scales: 'auto' (float16 where they fit, "
      "else "
      "float32) or 'f16'.");
  m.def(
      "blockwise_decompress",
      [](nb::handle codes, nb::handle scales, std::int64_t block_size) {
        const Input c(codes, "codes");
        const Input s(scales, "scales");
        BlockwiseCodes all;
        all.block_size = block_size;
        all.scale_type = s.dtype();
        const auto q = c.span<std::int8_t>(DType::kI8);
        all.codes.assign(q.begin(), q.end());
        if (s.dtype() == DType::kF16) {
          const auto half = s.span<std::uint16_t>(DType::kF16);
          all.scales_f16.assign(half.begin(), half.end());
        } else {
          const auto full = s.span<float>(DType::kF32);
          all.scales_f32.assign(full.begin(), full.end());
        }
        const Output<float> out(c.shape());
        unlocked([&] { return blockwise_decompress(all, out.span()); });
        return out.array();
      },
      arg("codes"), arg("scales"), arg("block_size") = 256,
      "The values of such codes and scales.");
  m.def(
      "top_k_compress",
      [](nb::handle x, double fraction) {
        const Floats values(x, "x");
        const TopKValues kept =
            unlocked([&] { return top_k_compress(values.span(), fraction); });
        return nb::make_tuple(array_of<std::int64_t>(kept.indices),
                              array_of<float>(kept.values));
      },
      arg("x"), arg("fraction"),
      nb::sig("def top_k_compress(x: object, fraction: float) -> tuple[numpy.ndarray, "
              "numpy.ndarray]"),
      "(indices, values) by falling magnitude, equal ones by rising index.");
  m.def(
      "top_k_decompress",
      [](nb::handle indices, nb::handle values, std::int64_t elements) {
        const Input i(indices, "indices");
        const Floats v(values, "values");
        const auto places = i.span<std::int64_t>(DType::kI64);
        const TopKValues kept{.elements = elements,
                              .indices = {places.begin(), places.end()},
                              .values = {v.span().begin(), v.span().end()}};
        const Output<float> out(value(Shape::make({elements})));
        unlocked([&] { return top_k_decompress(kept, out.span()); });
        return out.array();
      },
      arg("indices"), arg("values"), arg("elements"),
      "Zeros, and each value at its index.");
}

}  // namespace

void add_codec(nb::module_& m) {
  add_codecs(m);
  add_messages(m);
  add_codes(m);
}

}  // namespace pith::python
