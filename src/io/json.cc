#include "src/io/json.h"

#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/text.h"

namespace pith {
namespace {

// Pieces are small, so that a token that is too long is seen soon.
constexpr std::size_t kPiece = 16 << 10;

// The characters of a ByteReader, and where in it the parser is.
class Source {
 public:
  explicit Source(ByteReader& in) : in_(in), token_begin_(in.position()) {}

  bool more() { return next_ != end_ || refill(); }
  [[nodiscard]] char get() const { return *next_; }
  void advance() { ++next_; }

  // A token has ended: the next may be as long again.
  void token_done() { token_begin_ = position(); }
  // Only white space may follow, of any length.
  void document_done() { limit_ = UINT64_MAX; }
  [[nodiscard]] std::uint64_t position() const {
    return in_.position() - static_cast<std::uint64_t>(end_ - next_);
  }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  bool refill() {
    if (!status_.ok()) return false;
    if (in_.position() - token_begin_ > limit_) {
      status_ = Status::corrupt(fmt::format(
          "byte {}: a string, number or gap is longer than the {} bytes allowed",
          token_begin_, kMaxJsonToken));
      return false;
    }
    const std::uint64_t begin = in_.position();
    const auto piece = in_.piece(kPiece);
    if (!piece) {
      status_ = piece.error();
      return false;
    }
    next_ = reinterpret_cast<const char*>(piece->data());
    end_ = next_ + piece->size();
    // The parser would take a NUL for the end of the text.
    const std::size_t nul = std::string_view(next_, piece->size()).find('\0');
    if (nul != std::string_view::npos) {
      status_ =
          Status::corrupt(fmt::format("byte {}: not JSON: a NUL byte", begin + nul));
      end_ = next_ + nul;
    }
    return next_ != end_;
  }

  ByteReader& in_;
  const char* next_ = nullptr;
  const char* end_ = nullptr;
  std::uint64_t token_begin_;
  std::uint64_t limit_ = kMaxJsonToken;
  Status status_;
};

// What the library asks for characters. One without a source is the end.
class Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  Iterator() = default;
  explicit Iterator(Source* source) : source_(source) {}
  char operator*() const { return source_->get(); }
  Iterator& operator++() {
    source_->advance();
    return *this;
  }
  friend bool operator!=(const Iterator& a, const Iterator& /*end*/) {
    return a.source_->more();
  }

 private:
  Source* source_ = nullptr;
};

// From the library's events to ours; false ends the parse.
class Adapter : public nlohmann::json_sax<nlohmann::json> {
 public:
  Adapter(Source& source, JsonHandler& handler) : source_(source), handler_(handler) {}

  [[nodiscard]] const Status& status() const { return status_; }

  bool null() override { return value(handler_.null()); }
  bool boolean(bool b) override { return value(handler_.boolean(b)); }
  // Called for numbers with a minus only, so also for -0.
  bool number_integer(number_integer_t number) override {
    return value(handler_.other_number(static_cast<double>(number)));
  }
  bool number_unsigned(number_unsigned_t number) override {
    return value(handler_.number(number));
  }
  bool number_float(number_float_t number, const string_t& /*text*/) override {
    return value(handler_.other_number(number));
  }
  bool string(string_t& text) override { return value(handler_.string(text)); }
  bool binary(binary_t& /*bytes*/) override { return false; }  // never in JSON text
  bool key(string_t& text) override { return done(handler_.key(text)); }
  bool start_object(std::size_t /*size*/) override {
    return deeper() && done(handler_.begin_object());
  }
  bool end_object() override {
    --depth_;
    return value(handler_.end_object());
  }
  bool start_array(std::size_t /*size*/) override {
    return deeper() && done(handler_.begin_array());
  }
  bool end_array() override {
    --depth_;
    return value(handler_.end_array());
  }

  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    // "... parse error at line 1, column 2: syntax error while parsing value - WHY; last
    // read: 'TOKEN'": the token may be as long as the text.
    std::string_view why = error.what();
    if (const std::size_t dash = why.find(" - "); dash != why.npos) {
      why.remove_prefix(dash + 3);
    }
    why = why.substr(0, why.find("; last read"));
    status_ = Status::corrupt(
        fmt::format("byte {}: not JSON: {}", source_.position(), printable(why)));
    return false;
  }

 private:
  bool deeper() {
    if (++depth_ <= kMaxJsonDepth) return true;
    status_ = Status::corrupt(fmt::format("byte {}: JSON nested more than {} deep",
                                          source_.position(), kMaxJsonDepth));
    return false;
  }
  bool done(Status status) {
    source_.token_done();
    status_ = std::move(status);
    return status_.ok();
  }
  bool value(Status status) {
    if (depth_ == 0) source_.document_done();
    return done(std::move(status));
  }

  Source& source_;
  JsonHandler& handler_;
  int depth_ = 0;
  Status status_;
};

}  // namespace

Status parse_json(ByteReader& in, JsonHandler& handler) {
  Source source(in);
  if (source.more() && source.get() == '\xef') {
    return Status::corrupt(
        fmt::format("byte {}: not JSON: a byte-order mark", source.position()));
  }
  Adapter adapter(source, handler);
  const bool good = nlohmann::json::sax_parse(Iterator(&source), Iterator(), &adapter);
  // The end that stopped the parser may be none of the text's own.
  if (!source.status().ok()) return source.status();
  if (!adapter.status().ok()) return adapter.status();
  if (!good) return Status::corrupt("not JSON");
  return {};
}

JsonTree::JsonTree(std::size_t max_values)
    : max_values_(max_values), root_(std::make_unique<nlohmann::json>()) {}

JsonTree::~JsonTree() = default;

nlohmann::json JsonTree::take() {
  complete_ = false;
  values_ = 0;
  return std::exchange(*root_, nlohmann::json());
}

Status JsonTree::begin_object() { return begin(nlohmann::json::object()); }
Status JsonTree::begin_array() { return begin(nlohmann::json::array()); }
Status JsonTree::end_object() { return end(); }
Status JsonTree::end_array() { return end(); }
Status JsonTree::string(std::string& value) { return add(std::move(value)); }
Status JsonTree::number(std::uint64_t value) { return add(value); }
Status JsonTree::other_number(double value) { return add(value); }
Status JsonTree::boolean(bool value) { return add(value); }
Status JsonTree::null() { return add(nullptr); }

Status JsonTree::key(std::string& key) {
  if (stack_.back()->contains(key)) {
    return Status::corrupt(fmt::format("key '{}' is given twice", printable(key)));
  }
  key_ = std::move(key);
  return {};
}

Status JsonTree::add(nlohmann::json value) {
  if (++values_ > max_values_) {
    return Status::corrupt(fmt::format("more than {} JSON values", max_values_));
  }
  if (stack_.empty()) {
    *root_ = std::move(value);
    last_ = root_.get();
    complete_ = true;
  } else if (stack_.back()->is_array()) {
    stack_.back()->push_back(std::move(value));
    last_ = &stack_.back()->back();
  } else {
    last_ = &(*stack_.back())[key_];
    *last_ = std::move(value);
  }
  return {};
}

Status JsonTree::begin(nlohmann::json value) {
  PITH_OK(add(std::move(value)));
  stack_.push_back(last_);
  complete_ = false;
  return {};
}

Status JsonTree::end() {
  stack_.pop_back();
  complete_ = stack_.empty();
  return {};
}

Result<nlohmann::json> parse_json_tree(ByteReader& in, std::size_t max_values) {
  JsonTree tree(max_values);
  PITH_OK(parse_json(in, tree));
  return tree.take();
}

}  // namespace pith
