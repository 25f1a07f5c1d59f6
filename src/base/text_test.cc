#include "src/base/text.h"

#include <gtest/gtest.h>

namespace pith {
namespace {

TEST(Printable, PlainTextStays) {
  EXPECT_EQ(printable("model.layers.0.weight"), "model.layers.0.weight");
  EXPECT_EQ(printable("gewicht \u00e4 \u91cd"), "gewicht \u00e4 \u91cd");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, WhatATerminalObeysIsEscaped) {
  EXPECT_EQ(printable("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(printable("\x1b[2J"), "\\x1b[2J");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\x7f"), "\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");  // CSI in one character
  EXPECT_EQ(printable("\xc2\xa0"), "\xc2\xa0");
  EXPECT_EQ(printable("\"\\"), "\\\"\\\\");
}

TEST(Printable, BrokenUtf8IsEscaped) {
  EXPECT_EQ(printable("a\xff"), "a\\xff");
  EXPECT_EQ(printable("\xc3"), "\\xc3");
}

TEST(Printable, LongTextIsShortenedInTheMiddle) {
  const std::string text = std::string(1000, 'a') + std::string(1000, 'b');
  EXPECT_EQ(printable(text, 8), "aaaa...bbbb");
}

TEST(Utf8, LengthsAndRefusals) {
  EXPECT_EQ(utf8_length("a"), 1u);
  EXPECT_EQ(utf8_length("\xc3\xa4"), 2u);
  EXPECT_EQ(utf8_length("\xe9\x87\x8d"), 3u);
  EXPECT_EQ(utf8_length("\xf0\x9f\x98\x80"), 4u);
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80",
                          "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
                          "\xff", "\xc3", "\xe9\x87", "\xe9\x87q"}) {
    EXPECT_EQ(utf8_length(bad), 0u) << printable(bad);
  }
}

TEST(Utf8, FindsTheFirstBadByteAtAnyPlace) {
  EXPECT_EQ(find_invalid_utf8(""), std::string_view::npos);
  for (std::size_t n = 0; n < 40; ++n) {
    const std::string good = std::string(n, 'x') + "\xe9\x87\x8d" + std::string(n, 'y');
    EXPECT_EQ(find_invalid_utf8(good), std::string_view::npos);
    EXPECT_EQ(find_invalid_utf8(good + "\xff"), 2 * n + 3);
    EXPECT_EQ(find_invalid_utf8(std::string(n, 'x') + "\xe9\x87"), n);
  }
}

TEST(Printable, EscapesDoNotMakeItLong) {
  EXPECT_LE(printable(std::string(1000, '\xff'), 60).size(), 93u);
  EXPECT_LE(printable(std::string(60, '\xff'), 60).size(), 93u);
  EXPECT_EQ(printable(std::string(60, 'a'), 60), std::string(60, 'a'));
}

TEST(FindDuplicate, TellsWhichNameIsThereTwice) {
  EXPECT_EQ(find_duplicate({}), std::nullopt);
  EXPECT_EQ(find_duplicate({"b", "a", "", "ab"}), std::nullopt);
  EXPECT_EQ(find_duplicate({"b", "a", "c", "b"}), "b");
  EXPECT_EQ(find_duplicate({"", "a", ""}), "");
}

}  // namespace
}  // namespace pith
