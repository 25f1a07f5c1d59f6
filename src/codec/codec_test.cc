#include "pith/codec/codec.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "pith/codec/blockwise.h"
#include "pith/codec/top_k.h"
#include "src/codec/wire.h"
#include "tests/support/values.h"

namespace pith {
namespace {

using testing::normal_values;

using Message = std::vector<std::byte>;

std::vector<std::shared_ptr<const Codec>> all_codecs() {
  std::vector<std::shared_ptr<const Codec>> codecs;
  for (std::int64_t block : {1, 7, 256}) codecs.push_back(*BlockwiseCodec::make(block));
  for (double fraction : {0.0, 0.001, 0.01, 0.2, 0.5, 0.9, 1.0}) {
    codecs.push_back(*TopKCodec::make(fraction));
  }
  return codecs;
}

Message message_of(const Codec& codec, std::span<const float> values) {
  Message message;
  const Status status = codec.compress(values, message);
  EXPECT_TRUE(status.ok()) << status.message();
  return message;
}

// The checksum made right again, so that decoders see what was changed before it.
void reseal(Message& message) {
  wire::Header header;
  header.kind = static_cast<MessageKind>(message[5]);
  header.form = static_cast<wire::Form>(message[6]);
  header.elements = wire::load<std::int64_t>(message.data() + 8);
  header.parameter = wire::load<std::int64_t>(message.data() + 16);
  header.payload_bytes = wire::load<std::int64_t>(message.data() + 24);
  wire::seal(header, message);
}

StatusCode decode(const Message& message, std::size_t elements) {
  std::vector<float> out(elements);
  return decompress(message, std::span<float>(out)).code();
}

TEST(Codec, MessagesDecodeToWhatTheCodesSay) {
  const std::vector<float> values = normal_values(1000, 1);
  std::vector<float> expected(1000);
  ASSERT_TRUE(
      blockwise_decompress(*blockwise_compress(values, {.block_size = 64}), expected)
          .ok());
  EXPECT_EQ(*decompress(message_of(**BlockwiseCodec::make(64), values), 1000), expected);
  for (double fraction : {0.0, 0.003, 0.3, 0.98, 1.0}) {
    ASSERT_TRUE(top_k_decompress(*top_k_compress(values, fraction), expected).ok());
    EXPECT_EQ(*decompress(message_of(**TopKCodec::make(fraction), values), 1000),
              expected)
        << fraction;
  }
}

TEST(Codec, InfoTellsSizes) {
  const std::vector<float> values = normal_values(1000, 2);
  const Message blockwise = message_of(**BlockwiseCodec::make(100), values);
  const Result<MessageInfo> info = message_info(blockwise);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->kind, MessageKind::kBlockwise);
  EXPECT_EQ(info->elements, 1000);
  EXPECT_EQ(info->stored, 1000);
  EXPECT_EQ(info->message_bytes, 40 + 1000 + 20);
  EXPECT_NEAR(info->ratio(), 4000.0 / 1060, 1e-12);
  EXPECT_EQ(message_info(message_of(**TopKCodec::make(0.05), values))->stored, 50);
}

// The example of docs/formats/wire.md: what is written stays readable.
TEST(Codec, BytesAreThoseOfTheDocument) {
  const std::vector<float> values = {1, -2, 0};
  const int expected[] = {0x50, 0x54, 0x48, 0x57, 1,    1,    0,    0,  // what it is
                          3,    0,    0,    0,    0,    0,    0,    0,  // elements
                          2,    0,    0,    0,    0,    0,    0,    0,  // block size
                          7,    0,    0,    0,    0,    0,    0,    0,  // payload bytes
                          0x8f, 0x63, 0xb8, 0xc9, 0x76, 0x12, 0xc0, 0x5c,  // checksum
                          0x40, 0x81, 0,    0x08, 0x24, 0,    0x3c};
  const Message message = message_of(**BlockwiseCodec::make(2), values);
  ASSERT_EQ(message.size(), std::size(expected));
  for (std::size_t i = 0; i < message.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(message[i]), expected[i]) << i;
  }
}

// As docs/formats/wire.md tells it.
TEST(Codec, TopKTakesTheShortestForm) {
  const std::vector<float> values = normal_values(8000, 3);
  const auto form = [&](double fraction) {
    return std::to_integer<int>(message_of(**TopKCodec::make(fraction), values)[6]);
  };
  EXPECT_EQ(form(0.01), 0);   // 80 distances of one byte or two
  EXPECT_EQ(form(0.5), 1);    // a mask of 1000 bytes
  EXPECT_EQ(form(0.999), 2);  // all values
}

TEST(Codec, MessagesAreNeverLargerThanTheBound) {
  for (std::size_t n : {0u, 1u, 9u, 1000u}) {
    for (const auto& codec : all_codecs()) {
      const Message message = message_of(*codec, normal_values(n, 4));
      EXPECT_LE(static_cast<std::int64_t>(message.size()),
                *codec->max_message_bytes(static_cast<std::int64_t>(n)))
          << codec->name();
      if (codec->name().starts_with("top_k")) {
        EXPECT_LE(message.size(), 40 + 4 * n) << codec->name();
      }
    }
  }
  for (const auto& codec : all_codecs()) {
    EXPECT_FALSE(codec->max_message_bytes(-1).has_value());
    EXPECT_FALSE(codec->max_message_bytes(INT64_MAX).has_value());
  }
}

TEST(Codec, NonfiniteValuesAreRefused) {
  std::vector<float> values = normal_values(50, 5);
  for (float bad : {NAN, INFINITY}) {
    values[31] = bad;
    for (const auto& codec : all_codecs()) {
      Message message;
      const Status status = codec->compress(values, message);
      EXPECT_EQ(status.code(), StatusCode::kNotFinite) << codec->name();
      EXPECT_NE(status.message().find("31"), std::string::npos);
    }
  }
}

TEST(Codec, EveryTruncationIsCorrupt) {
  for (const auto& codec : all_codecs()) {
    const Message message = message_of(*codec, normal_values(100, 6));
    for (std::size_t size = 0; size < message.size(); ++size) {
      const Message cut(message.begin(),
                        message.begin() + static_cast<std::ptrdiff_t>(size));
      ASSERT_EQ(decode(cut, 100), StatusCode::kCorrupt) << codec->name() << " " << size;
    }
    Message longer = message;
    longer.push_back(std::byte{0});
    EXPECT_EQ(decode(longer, 100), StatusCode::kCorrupt);
  }
}

TEST(Codec, EveryFlippedBitIsNoticed) {
  for (const auto& codec : all_codecs()) {
    Message message = message_of(*codec, normal_values(60, 7));
    for (std::size_t i = 0; i < message.size(); ++i) {
      for (int bit = 0; bit < 8; ++bit) {
        message[i] ^= std::byte{1} << bit;
        ASSERT_NE(decode(message, 60), StatusCode::kOk) << codec->name() << " byte " << i;
        message[i] ^= std::byte{1} << bit;
      }
    }
    EXPECT_EQ(decode(message, 60), StatusCode::kOk);
  }
}

TEST(Codec, UnknownVersionsAreUnsupported) {
  Message message = message_of(**BlockwiseCodec::make(8), normal_values(8, 8));
  message[4] = std::byte{2};
  EXPECT_EQ(decode(message, 8), StatusCode::kUnsupported);
}

TEST(Codec, SizeOfTheOutputMustFit) {
  const Message message = message_of(**TopKCodec::make(0.1), normal_values(100, 9));
  EXPECT_EQ(decode(message, 99), StatusCode::kInvalidArgument);
  EXPECT_EQ(decompress(message, std::int64_t{99}).status().code(),
            StatusCode::kInvalidArgument);
}

// A message of 45 bytes that claims 2^60 elements is well formed; it must not cost memory.
TEST(Codec, HugeCountsCostNoMemory) {
  Message message(wire::kHeaderBytes + 5);
  wire::Header header;
  header.kind = MessageKind::kTopK;
  header.form = wire::Form::kDistances;
  header.elements = std::int64_t{1} << 60;
  header.parameter = 1;
  header.payload_bytes = 5;
  wire::seal(header, message);
  EXPECT_EQ(message_info(message)->elements, header.elements);
  EXPECT_EQ(decompress(message, std::int64_t{1} << 30).status().code(),
            StatusCode::kInvalidArgument);
}

// What a decoder must see although the checksum is right.
TEST(Codec, BadContentIsCorrupt) {
  const std::vector<float> values = normal_values(100, 10);
  const auto refuses = [&](const Codec& codec, auto change) {
    Message message = message_of(codec, values);
    change(message);
    reseal(message);
    return decode(message, 100) == StatusCode::kCorrupt;
  };
  const auto blockwise = *BlockwiseCodec::make(50);
  const auto sparse = *TopKCodec::make(0.05);
  const auto mask = *TopKCodec::make(0.5);
  const auto dense = *TopKCodec::make(0.99);
  const std::size_t head = wire::kHeaderBytes;
  const auto set = [](std::size_t at, int value) {
    return [=](Message& m) { m[at] = static_cast<std::byte>(value); };
  };
  const auto set_value = [](std::size_t from_end, float value) {
    return [=](Message& m) { wire::store(m.data() + m.size() - from_end, value); };
  };
  EXPECT_TRUE(refuses(*blockwise, set(head + 3, 0x80)));    // code -128
  EXPECT_TRUE(refuses(*blockwise, set(head + 101, 0x7c)));  // scale NaN or infinite
  EXPECT_TRUE(refuses(*blockwise, set(head + 103, 0x90)));  // negative scale
  EXPECT_TRUE(refuses(*blockwise, set(16, 0)));             // block size 0
  EXPECT_TRUE(refuses(*blockwise, set(16, 49)));            // other number of scales
  EXPECT_TRUE(refuses(*blockwise, set(19, 0x80)));          // block size 2^31
  EXPECT_TRUE(refuses(*blockwise, set(6, 1)));              // f32 scales that are f16
  EXPECT_TRUE(refuses(*blockwise, set(6, 2)));              // unknown form
  EXPECT_TRUE(refuses(*blockwise, set(5, 3)));              // unknown kind
  EXPECT_TRUE(refuses(*blockwise, set(15, 0x80)));          // 2^63 elements
  EXPECT_TRUE(refuses(*sparse, set(head, 127)));            // index beyond the end
  EXPECT_TRUE(refuses(*sparse, set(head, 0x80)));           // the varint goes on
  EXPECT_TRUE(refuses(*sparse, set(16, 4)));                // bytes left over
  EXPECT_TRUE(refuses(*sparse, set(16, 6)));                // too few bytes
  EXPECT_TRUE(refuses(*sparse, set(23, 0x80)));             // 2^63 values
  EXPECT_TRUE(refuses(*sparse, set_value(4, NAN)));
  EXPECT_TRUE(refuses(*mask, set(head, 0xff)));       // more bits than values
  EXPECT_TRUE(refuses(*mask, set(head + 12, 0xf0)));  // beyond the last element
  EXPECT_TRUE(refuses(*mask, set_value(8, INFINITY)));
  EXPECT_TRUE(refuses(*dense, set(16, 50)));  // fewer kept than not zero
  EXPECT_TRUE(refuses(*dense, set_value(40, -INFINITY)));
}

// 0x80 0x00 and 0x00 are both zero; only one of them is a message.
TEST(Codec, OverlongDistancesAreCorrupt) {
  Message message(wire::kHeaderBytes + 6);
  message[wire::kHeaderBytes] = std::byte{0x80};
  wire::Header header;
  header.kind = MessageKind::kTopK;
  header.form = wire::Form::kDistances;
  header.elements = 4;
  header.parameter = 1;
  header.payload_bytes = 6;
  wire::seal(header, message);
  EXPECT_EQ(decode(message, 4), StatusCode::kCorrupt);
}

RC_GTEST_PROP(Codec, RoundTripIsStable, (std::uint32_t seed)) {
  const std::vector<float> values =
      normal_values(*rc::gen::inRange<std::size_t>(0, 2000), seed);
  for (const auto& codec : all_codecs()) {
    const Message message = message_of(*codec, values);
    const Result<std::vector<float>> out = decompress(message, std::int64_t{1} << 20);
    RC_ASSERT(out.has_value());
    RC_ASSERT(out->size() == values.size());
    RC_ASSERT(message_of(*codec, values) == message);
    if (codec->name().starts_with("top_k")) {
      // What was kept is kept again, in every bit.
      RC_ASSERT(*decompress(message_of(*codec, *out), std::int64_t{1} << 20) == *out);
    }
  }
}

RC_GTEST_PROP(Codec, RandomBytesNeverCrashADecoder, (std::uint32_t seed)) {
  std::mt19937 random(seed);
  std::vector<float> out(random() % 300);
  Message message(random() % 400);
  for (std::byte& byte : message) byte = static_cast<std::byte>(random());
  RC_ASSERT(!decompress(message, std::span<float>(out)).ok());
  // The same bytes behind a header that is plausible.
  if (message.size() < wire::kHeaderBytes) return;
  wire::Header header;
  header.kind = random() % 2 != 0 ? MessageKind::kTopK : MessageKind::kBlockwise;
  header.form = static_cast<wire::Form>(random() % 3);
  header.elements = static_cast<std::int64_t>(out.size());
  header.parameter = static_cast<std::int64_t>(random() % (out.size() + 2));
  header.payload_bytes = static_cast<std::int64_t>(message.size() - wire::kHeaderBytes);
  wire::seal(header, message);
  (void)decompress(message, std::span<float>(out));
  (void)decompress(message, std::int64_t{1000});
}

RC_GTEST_PROP(Codec, ChangedMessagesNeverCrashADecoder, (std::uint32_t seed)) {
  std::mt19937 random(seed);
  const auto codecs = all_codecs();
  const std::size_t n = 1 + random() % 200;
  Message message = message_of(*codecs[random() % codecs.size()], normal_values(n, seed));
  for (int i = 0; i < 4; ++i) {
    const std::size_t at = 5 + random() % (message.size() - 5);
    message[at] = static_cast<std::byte>(random());
  }
  reseal(message);
  std::vector<float> out(n);
  if (decompress(message, std::span<float>(out)).ok()) {
    for (float v : out) RC_ASSERT(!std::isnan(v));
  }
}

TEST(ErrorFeedback, WhatIsLostComesLater) {
  ErrorFeedback feedback(*TopKCodec::make(0.25));
  const std::vector<float> gradient = {4, 3, 2, 1};
  std::vector<float> received(4);
  Message message;
  for (int step = 0; step < 40; ++step) {
    ASSERT_TRUE(feedback.compress(gradient, message).ok());
    const Result<std::vector<float>> part = decompress(message, 4);
    for (std::size_t i = 0; i < 4; ++i) received[i] += (*part)[i];
  }
  // Integers: nothing is rounded, and every value gets through.
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(received[i] + feedback.residual()[i], 40 * gradient[i]);
    EXPECT_GT(received[i], 0);
  }
}

RC_GTEST_PROP(ErrorFeedback, SumIsPreserved, (std::uint32_t seed)) {
  for (const auto& codec : all_codecs()) {
    ErrorFeedback feedback(codec);
    std::vector<double> sent(50), received(50);
    Message message;
    for (std::uint32_t step = 0; step < 20; ++step) {
      const std::vector<float> values = normal_values(50, seed + step);
      RC_ASSERT(feedback.compress(values, message).ok());
      const Result<std::vector<float>> part = decompress(message, 50);
      for (std::size_t i = 0; i < 50; ++i) {
        sent[i] += values[i];
        received[i] += (*part)[i];
      }
    }
    for (std::size_t i = 0; i < 50; ++i) {
      RC_ASSERT(std::fabs(sent[i] - received[i] - feedback.residual()[i]) < 1e-4);
    }
  }
}

TEST(ErrorFeedback, ErrorsLeaveTheResidual) {
  ErrorFeedback feedback(*BlockwiseCodec::make(4));
  Message message;
  ASSERT_TRUE(feedback.compress(normal_values(10, 11), message).ok());
  const std::vector<float> before(feedback.residual().begin(), feedback.residual().end());
  EXPECT_EQ(feedback.compress(normal_values(9, 12), message).code(),
            StatusCode::kInvalidArgument);
  std::vector<float> bad = normal_values(10, 13);
  bad[2] = NAN;
  EXPECT_EQ(feedback.compress(bad, message).code(), StatusCode::kNotFinite);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), feedback.residual().begin()));
  feedback.reset();
  EXPECT_TRUE(feedback.compress(normal_values(9, 14), message).ok());
}

}  // namespace
}  // namespace pith
