#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "filesXXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

TEST(ReadFile, GivesTheWholeFile) {
  const Folder folder;
  const std::string text = std::string("a\0b", 3) + std::string(1'000'000, 'x');
  std::ofstream(folder / "f", std::ios::binary) << text;
  EXPECT_EQ(*read_file(folder / "f"), text);
  std::ofstream(folder / "empty", std::ios::binary).flush();
  EXPECT_EQ(*read_file(folder / "empty"), "");
}

TEST(ReadFile, SaysWhichPathIsMissing) {
  EXPECT_EQ(read_file("no/such/file").error().code, ErrorCode::kNotFound);
}

// Each of these could otherwise wait for ever, never end, or look like a file that is not there.
TEST(ReadFile, RefusesWhatIsNoRegularFile) {
  const Folder folder;
  ASSERT_EQ(mkfifo((folder / "fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("loop", folder / "loop");
  std::filesystem::create_symlink("gone", folder / "dangling");
  for (const auto& [path, says] : {std::pair<std::string, const char*>{"/tmp", "got a folder"},
                                   {folder / "fifo", "expected a regular file"},
                                   {"/dev/zero", "expected a regular file"},
                                   {folder / "loop", "cannot open"},
                                   {folder / "dangling", "is a link to gone, which does not"}}) {
    const Result<std::string> text = read_file(path);
    ASSERT_FALSE(text) << path;
    EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument) << path;
    EXPECT_THAT(text.error().message, AllOf(HasSubstr(path), HasSubstr(says)));
    EXPECT_TRUE(is_present(path));
  }
  EXPECT_FALSE(is_present(folder / "gone"));
}

TEST(ReadFile, RefusesMoreThanAnyTextFileHas) {
  const Folder folder;
  std::ofstream(folder / "f", std::ios::binary).flush();
  std::filesystem::resize_file(folder / "f", uintmax_t{1} << 40U);  // no disk space: a hole
  EXPECT_THAT(read_json_file(folder / "f").error().message, HasSubstr("got 1099511627776"));
}

}  // namespace
}  // namespace baton
