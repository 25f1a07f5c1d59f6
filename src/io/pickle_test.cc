#include "src/io/pickle.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/io/pickle_opcodes.h"
#include "tests/support/pickle_builder.h"

namespace pith {
namespace {

using testing::PickleBuilder;
using testing::PickleTensor;

Result<PickledModel> read(const PickleBuilder& pickle) {
  return read_state_dict(testing::bytes_of(pickle.str()));
}

std::string refusal(const PickleBuilder& pickle) {
  const auto model = read(pickle);
  return model ? "accepted" : model.error().message();
}

// A dict with one item, whose value `value` puts on the stack.
template <typename F>
PickleBuilder dict_with(F value) {
  PickleBuilder pickle;
  pickle.begin().op("}").text("k");
  value(pickle);
  pickle.op("s.");
  return pickle;
}

#define EXPECT_PICKLE_REFUSAL(pickle, part) \
  EXPECT_NE(refusal(pickle).find(part), std::string::npos) << refusal(pickle)

TEST(Pickle, StateDict) {
  PickleBuilder pickle;
  pickle.begin().ordered_dict().op("q").byte(0).op("(");
  pickle.text("w").tensor();
  pickle.text("w_t").tensor({.sizes = {3, 2}, .strides = {1, 3}});
  pickle.text("b").tensor({"BFloat16Storage", "1", 4, 1, {2}, {2}});
  pickle.op("u}").text("_metadata").ordered_dict().op("sb.");
  const auto model = read(pickle);
  ASSERT_TRUE(model) << model.error().message();
  ASSERT_EQ(model->storages.size(), 2u);
  EXPECT_EQ(model->storages[0].key, "0");
  EXPECT_EQ(model->storages[0].dtype, DType::kF32);
  EXPECT_EQ(model->storages[0].elements, 6);
  EXPECT_EQ(model->storages[1].dtype, DType::kBF16);
  ASSERT_EQ(model->tensors.size(), 3u);
  EXPECT_EQ(model->tensors[0].name, "w");
  EXPECT_EQ(model->tensors[1].name, "w_t");
  EXPECT_EQ(model->tensors[1].storage, 0u);
  EXPECT_EQ(model->tensors[1].strides, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(model->tensors[2].offset, 1);
  EXPECT_EQ(model->tensors[2].storage, 1u);
}

TEST(Pickle, NestedDictsAndOtherValues) {
  PickleBuilder pickle;
  pickle.begin().op("}(");
  pickle.text("epoch").integer(70000);
  pickle.text("lr").op(std::string_view("G\x3f\xe0\0\0\0\0\0\0", 9));
  pickle.text("note").text("te\nxt");
  pickle.text("flag").byte(0x88).text("none").op("N");
  pickle.text("big").integer(-5000000000);
  pickle.text("py2").op("U\x02hi");
  pickle.text("model").op("}(").text("layer.weight").tensor().integer(7).tensor().op("u");
  pickle.text("list").op("](").tensor().integer(1).op("e");
  pickle.text("one").op("]").tensor().op("a");
  pickle.text("pair").tensor().op("N").byte(0x86);
  pickle.op("u.");
  const auto model = read(pickle);
  ASSERT_TRUE(model) << model.error().message();
  std::vector<std::string> names;
  for (const PickledTensor& tensor : model->tensors) names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"model.layer.weight", "model.7", "list.0",
                                             "one.0", "pair.0"}));
  const std::vector<std::pair<std::string, std::string>> values = {
      {"epoch", "70000"},     {"lr", "0.5"}, {"note", "te\\nxt"}, {"flag", "True"},
      {"big", "-5000000000"}, {"py2", "hi"}, {"list.1", "1"}};
  EXPECT_EQ(model->values, values);
}

TEST(Pickle, ParametersAreTheirTensors) {
  PickleBuilder pickle;
  pickle.begin().op("}").text("w").global("torch._utils", "_rebuild_parameter").op("(");
  pickle.tensor().byte(0x88).ordered_dict().op("tRs.");
  ASSERT_TRUE(read(pickle)) << refusal(pickle);
  EXPECT_EQ(read(pickle)->tensors[0].name, "w");
}

TEST(Pickle, ASingleTensorHasNoName) {
  const auto model = read(PickleBuilder().begin().tensor().op("."));
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ(model->tensors[0].name, "");
}

TEST(Pickle, TheMemoSharesObjects) {
  PickleBuilder pickle;
  pickle.begin().op("}(").text("a").tensor().op("r").op(
      std::string_view("\x07\x01\0\0", 4));
  pickle.text("b").op("j").op(std::string_view("\x07\x01\0\0", 4)).op("u.");
  const auto model = read(pickle);
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ(model->tensors[1].name, "b");
  EXPECT_EQ(model->tensors[1].storage, 0u);
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("h\x05."), "memo 5 was never put");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("}r\xff\xff\xff\xff."),
                        "memo index 4294967295");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("(q").byte(0), "the stack is empty");
}

TEST(Pickle, GlobalsOutsideTheListAreRefusedByName) {
  EXPECT_PICKLE_REFUSAL(
      dict_with([](PickleBuilder& p) {
        p.global("os", "system").text("x").byte(0x85).op("R");
      }),
      "byte 9 (GLOBAL): 'os.system' is not part of a state dict and is never executed");
  for (const auto& [module, name] : std::vector<std::pair<std::string, std::string>>{
           {"builtins", "eval"},
           {"torch", "load"},
           {"torch", "ComplexFloatStorage"},
           {"torch._utils", "_rebuild_tensor_v3"},
           {"torch._utils", "_rebuild_tensor"},
           {"collections", "OrderedDict "},
           {"", ""},
           {"collections.OrderedDict", "__init__"}}) {
    EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().global(module, name), "never executed");
  }
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("cos\nsystem"),
                        "a name without an end");
  EXPECT_PICKLE_REFUSAL(
      PickleBuilder().begin().op("c" + std::string(1000, 'a') + "\nb\n"),
      "a name without an end");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().global("o\x1b[31ms", "s\x07"),
                        "'o\\x1b[31ms.s\\x07'");
}

TEST(Pickle, EveryOtherOpcodeIsRefusedByName) {
  const std::string known = "().GJKMNQRUX]abcehjqrstu}";
  for (int op = 0; op < 256; ++op) {
    const auto byte = static_cast<std::uint8_t>(op);
    const bool listed = known.find(static_cast<char>(byte)) != std::string::npos ||
                        (op >= 0x85 && op <= 0x8a);
    if (listed) continue;
    const std::string message = refusal(PickleBuilder().begin().byte(byte).op("...."));
    EXPECT_NE(message.find("this opcode is not part of a state dict"), std::string::npos)
        << op;
    EXPECT_NE(message.find(pickle_op_name(byte)), std::string::npos) << message;
  }
  EXPECT_EQ(pickle_op_name(0x93), "STACK_GLOBAL");
  EXPECT_EQ(pickle_op_name('i'), "INST");
  EXPECT_EQ(pickle_op_name('o'), "OBJ");
  EXPECT_EQ(pickle_op_name(0x81), "NEWOBJ");
}

TEST(Pickle, Protocol) {
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin(4).op("}."),
                        "pickle protocol 4, expected 2");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin(0).op("}."),
                        "pickle protocol 0, expected 2");
  EXPECT_EQ(refusal(PickleBuilder().begin(3).op("}.")), "accepted");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().op("}."), "does not begin with its protocol");
  EXPECT_PICKLE_REFUSAL(PickleBuilder(), "opcode needs 1 bytes");
}

TEST(Pickle, TheEndLeavesOneObject) {
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("."), "ends with 0 objects");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("}}."), "ends with 2 objects");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("}(."), "ends with 1 objects");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("}.x"), "1 bytes behind the end");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("}"), "opcode needs 1 bytes");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("N."),
                        "the pickle holds None, expected a dict");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("]."), "the pickle holds a list");
}

TEST(Pickle, EveryTruncationIsRefused) {
  PickleBuilder pickle;
  pickle.begin().ordered_dict().op("(").text("w").tensor().op("u}").text("x").op("Nsb.");
  ASSERT_EQ(refusal(pickle), "accepted");
  for (std::size_t size = 0; size < pickle.str().size(); ++size) {
    EXPECT_FALSE(read_state_dict(testing::bytes_of(pickle.str()).first(size))) << size;
  }
}

TEST(Pickle, StackAndMarks) {
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("t."), "there is no mark");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("u."), "there is no mark");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("R."), "the stack is empty");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("Q."), "the stack is empty");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("s."), "too few objects");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("a."), "too few objects");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("\x86."),
                        "too few objects for a tuple");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("}(Nu."), "a key without a value");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("](NNu."),
                        "items are put into a list");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("}(Ne."), "items are put into a dict");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("}}b."),
                        "state (a dict) is set on a plain dict");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("NNb."), "items are put into None");
}

TEST(Pickle, Calls) {
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("N)R."),
                        "a call of None with a tuple");
  EXPECT_PICKLE_REFUSAL(
      PickleBuilder().begin().global("collections", "OrderedDict").op("NR."),
      "a call of a function or class with None");
  EXPECT_PICKLE_REFUSAL(
      PickleBuilder().begin().global("collections", "OrderedDict").op("]\x85R."),
      "a call of collections.OrderedDict with 1 arguments");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().global("torch", "FloatStorage").op(")R."),
                        "a call of torch.FloatStorage with 0 arguments");
  EXPECT_PICKLE_REFUSAL(
      PickleBuilder().begin().global("torch._utils", "_rebuild_tensor_v2").op(")R."),
      "a tensor that is not rebuilt");
  EXPECT_PICKLE_REFUSAL(
      PickleBuilder().begin().global("torch._utils", "_rebuild_parameter").op(")R."),
      "a parameter that is not rebuilt");
}

TEST(Pickle, TensorsWithFlagsAreRefused) {
  const auto with = [](std::string_view metadata) {
    PickleBuilder pickle;
    pickle.begin().global("torch._utils", "_rebuild_tensor_v2").op("(").storage({});
    pickle.integer(0).tuple({2, 3}).tuple({3, 1}).byte(0x89).ordered_dict();
    return pickle.op(metadata).op("tR.");
  };
  EXPECT_EQ(refusal(with("")), "accepted");
  EXPECT_EQ(refusal(with("N")), "accepted");
  EXPECT_EQ(refusal(with("}")), "accepted");
  EXPECT_PICKLE_REFUSAL(with("}U\x03neg\x88s"), "a tensor with flags");
  EXPECT_PICKLE_REFUSAL(with("NN"), "a tensor that is not rebuilt");
}

TEST(Pickle, Storages) {
  const auto with = [](const PickleTensor& tensor) {
    return PickleBuilder().begin().tensor(tensor).op(".");
  };
  EXPECT_PICKLE_REFUSAL(with({.elements = -1}), "storage '0' has -1 elements");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("NQ."), "a persistent id that is no");
  EXPECT_PICKLE_REFUSAL(PickleBuilder()
                            .begin()
                            .op("(")
                            .text("module")
                            .global("torch", "FloatStorage")
                            .text("0")
                            .text("cpu")
                            .integer(1)
                            .op("tQ."),
                        "a persistent id that is no");
  EXPECT_PICKLE_REFUSAL(PickleBuilder()
                            .begin()
                            .op("(")
                            .text("storage")
                            .global("collections", "OrderedDict")
                            .text("0")
                            .text("cpu")
                            .integer(1)
                            .op("tQ."),
                        "a persistent id that is no");
  PickleBuilder two;
  two.begin().op("}(").text("a").tensor().text("b").tensor({.elements = 7}).op("u.");
  EXPECT_PICKLE_REFUSAL(two, "named with two types or sizes");
  PickleBuilder left;
  left.begin().op("}").text("a").storage({}).op("s.");
  EXPECT_PICKLE_REFUSAL(left, "'a' is a storage");
}

TEST(Pickle, ViewsStayInTheirStorage) {
  const auto with = [](std::int64_t elements, std::int64_t offset,
                       std::vector<std::int64_t> sizes,
                       std::vector<std::int64_t> strides) {
    return PickleBuilder()
        .begin()
        .tensor(
            {"FloatStorage", "0", elements, offset, std::move(sizes), std::move(strides)})
        .op(".");
  };
  EXPECT_EQ(refusal(with(6, 0, {2, 3}, {3, 1})), "accepted");
  EXPECT_EQ(refusal(with(0, 0, {0, 3}, {3, 1})), "accepted");
  EXPECT_EQ(refusal(with(1, 0, {}, {})), "accepted");
  EXPECT_PICKLE_REFUSAL(
      with(4, 0, {2, 3}, {3, 1}),
      "a tensor of shape [2, 3] at element 0 runs past its storage '0' of 4 elements");
  EXPECT_PICKLE_REFUSAL(with(6, 1, {2, 3}, {3, 1}), "runs past its storage");
  EXPECT_PICKLE_REFUSAL(with(6, -1, {2, 3}, {3, 1}), "runs past its storage");
  EXPECT_PICKLE_REFUSAL(with(0, 0, {}, {}), "runs past its storage");
  EXPECT_PICKLE_REFUSAL(with(6, INT64_MAX, {2}, {INT64_MAX}), "runs past its storage");
  // 2^62 * 4 wraps to 0.
  EXPECT_PICKLE_REFUSAL(with(8, 0, {(std::int64_t{1} << 62) + 1}, {4}),
                        "runs past its storage");
  const std::int64_t big = std::int64_t{1} << 32;
  EXPECT_PICKLE_REFUSAL(with(6, 0, {big, big}, {0, 0}), "exceeds 2^63-1");
  EXPECT_PICKLE_REFUSAL(with(6, 0, {big, 2}, {0, 0}),
                        "that repeats a storage of 6 elements");
  EXPECT_EQ(refusal(with(6, 0, {1000, 2}, {0, 0})), "accepted");
  EXPECT_PICKLE_REFUSAL(with(6, 0, {-2, 3}, {3, 1}), "sizes of a tensor must be");
  EXPECT_PICKLE_REFUSAL(with(6, 0, {2, 3}, {-3, 1}), "strides of a tensor must be");
  EXPECT_PICKLE_REFUSAL(with(6, 0, {2, 3}, {3}), "2 sizes and 1 strides");
  EXPECT_PICKLE_REFUSAL(
      with(6, 0, std::vector<std::int64_t>(65, 1), std::vector<std::int64_t>(65, 1)),
      "65 dimensions");
}

TEST(Pickle, NamesAreUnique) {
  PickleBuilder keys;
  keys.begin().op("}(").text("a").tensor().text("a").op("Nu.");
  EXPECT_PICKLE_REFUSAL(keys, "key 'a' is there twice");
  PickleBuilder number;
  number.begin().op("}(").text("1").tensor().integer(1).op("Nu.");
  EXPECT_PICKLE_REFUSAL(number, "key '1' is there twice");
  PickleBuilder dotted;
  dotted.begin().op("}(").text("a.b").tensor().text("a").op("}").text("b").tensor().op(
      "su.");
  EXPECT_PICKLE_REFUSAL(dotted, "two tensors are named 'a.b'");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op("}NNs."), "a key is None");
}

TEST(Pickle, DepthAndCyclesAreBounded) {
  PickleBuilder deep;
  deep.begin();
  for (int i = 0; i < 100; ++i) deep.op("}").text("k");
  deep.op("N");
  for (int i = 0; i < 100; ++i) deep.op("s");
  deep.op(".");
  EXPECT_PICKLE_REFUSAL(deep, "nested more than 64 deep");
  // d["k"] = d
  EXPECT_PICKLE_REFUSAL(
      PickleBuilder().begin().op("}q").byte(0).text("k").op("h").byte(0).op("s."),
      "nested more than 64 deep");
}

TEST(Pickle, SharedDictsDoNotMultiply) {
  // 60 levels, each holding the one below twice: 2^60 ways to the bottom.
  PickleBuilder pickle;
  pickle.begin().op("}q").byte(0);
  for (std::uint8_t i = 0; i < 60; ++i) {
    pickle.op("}(").text("a").op("h").byte(i).text("b").op("h").byte(i).op("uq").byte(
        static_cast<std::uint8_t>(i + 1));
  }
  PickleBuilder top;
  top.begin().op("}").text("all").op("(");
  // Everything is on the stack: pack it into a tuple.
  top.op(std::string_view(pickle.str()).substr(2)).op("ts.");
  EXPECT_PICKLE_REFUSAL(top, "too many objects");
}

TEST(Pickle, LongNamesDoNotMultiply) {
  PickleBuilder pickle;
  pickle.begin().op("}").text(std::string(5000, 'n')).tensor().op("s.");
  EXPECT_PICKLE_REFUSAL(pickle, "too long");
}

TEST(Pickle, ManyObjectsAreRefused) {
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op(std::string(2 << 20, 'N')).op("."),
                        "too many objects at once");
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op(std::string(2 << 20, '(')).op("."),
                        "too many marks");
  std::string lists = "](";
  for (int i = 0; i < 3000; ++i) lists += std::string(1000, ']') + "e(";
  EXPECT_PICKLE_REFUSAL(PickleBuilder().begin().op(lists), "too many objects");
}

TEST(Pickle, Integers) {
  const auto value = [](std::string_view ops) -> std::string {
    const auto model = read(dict_with([&](PickleBuilder& p) { p.op(ops); }));
    return model ? model->values.at(0).second : model.error().message();
  };
  EXPECT_EQ(value(std::string_view("\x8a\0", 2)), "0");
  EXPECT_EQ(value("\x8a\x01\xff"), "-1");
  EXPECT_EQ(value("\x8a\x02\xff\x7f"), "32767");
  EXPECT_EQ(value("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"), "9223372036854775807");
  EXPECT_EQ(value("J\xfe\xff\xff\xff"), "-2");
  EXPECT_NE(
      value("\x8a\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01").find("an integer of 9 bytes"),
      std::string::npos);
}

}  // namespace
}  // namespace pith
