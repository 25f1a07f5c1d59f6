// A library that is put in front of the C library (LD_PRELOAD) and makes one of its calls
// go wrong, so that tests can reach every point where the world may fail.
//
//   PITH_FAULT=pwrite:3:ENOSPC         the third pwrite fails with that error
//   PITH_FAULT=pwrite:3:ENOSPC:always  and all after it
//   PITH_FAULT=pwrite:3:short          it writes half of the bytes
//   PITH_FAULT=rename:1:kill           SIGKILL before the call; killafter: behind it
//   PITH_FAULT=fsync:1:int             SIGINT before the call
//   PITH_FAULT=pread:4:cut=FILE        behind the call FILE is cut to half its size
//   PITH_FAULT_COUNT=FILE              at exit, how often each kind of call was made
//
// A kind stands for all calls of its sort: `open` for open and openat, `rename` for rename,
// renameat and renameat2.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

enum Kind {
  kOpen,
  kRead,
  kPread,
  kWrite,
  kPwrite,
  kFsync,
  kClose,
  kRename,
  kLink,
  kUnlink,
  kMkdir,
  kFallocate,
  kFtruncate,
  kFchmod,
  kFlock,
  kDup,
  kMalloc,
  kKinds
};
constexpr const char* kNames[kKinds] = {
    "open",      "read",   "pread", "write",  "pwrite", "fsync",
    "close",     "rename", "link",  "unlink", "mkdir",  "fallocate",
    "ftruncate", "fchmod", "flock", "dup",    "malloc"};

struct ErrorName {
  const char* name;
  int value;
};
constexpr ErrorName kErrors[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},
                                 {"EDQUOT", EDQUOT}, {"EFBIG", EFBIG},
                                 {"ENOMEM", ENOMEM}, {"EROFS", EROFS},
                                 {"EPERM", EPERM},   {"EINTR", EINTR},
                                 {"EMFILE", EMFILE}, {"EOPNOTSUPP", EOPNOTSUPP}};

long counts[kKinds];
bool ready = false;
int fault_kind = -1;
long fault_at = 0;
int fault_error = 0;
bool fault_always = false;
char fault_action[512];

// What is to be done with a call.
enum Verdict { kGoOn, kFail, kShort, kActAfter };

__attribute__((constructor)) void read_environment() {
  if (const char* text = getenv("PITH_FAULT")) {
    char kind[32] = "";
    if (sscanf(text, "%31[^:]:%ld:%511s", kind, &fault_at, fault_action) == 3) {
      if (char* always = strstr(fault_action, ":always")) {
        *always = '\0';
        fault_always = true;
      }
      for (int i = 0; i < kKinds; ++i) {
        if (strcmp(kind, kNames[i]) == 0) fault_kind = i;
      }
      for (const ErrorName& error : kErrors) {
        if (strcmp(fault_action, error.name) == 0) fault_error = error.value;
      }
    }
  }
  memset(counts, 0, sizeof(counts));
  ready = true;
}

__attribute__((destructor)) void write_counts() {
  const char* path = getenv("PITH_FAULT_COUNT");
  if (path == nullptr) return;
  const long fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0) return;
  for (int i = 0; i < kKinds; ++i) {
    char line[64];
    const int length = snprintf(line, sizeof(line), "%s %ld\n", kNames[i], counts[i]);
    if (syscall(SYS_write, fd, line, length) < 0) break;
  }
  syscall(SYS_close, fd);
}

[[noreturn]] void kill_now() {
  syscall(SYS_kill, getpid(), SIGKILL);
  for (;;) pause();
}

Verdict judge(Kind kind) {
  if (!ready) return kGoOn;
  const long count = __atomic_add_fetch(&counts[kind], 1, __ATOMIC_RELAXED);
  if (kind != fault_kind) return kGoOn;
  if (count != fault_at && !(fault_always && count > fault_at)) return kGoOn;
  if (fault_error != 0) {
    errno = fault_error;
    return kFail;
  }
  if (strcmp(fault_action, "short") == 0) return kShort;
  if (strcmp(fault_action, "kill") == 0) kill_now();
  if (strcmp(fault_action, "int") == 0) {
    raise(SIGINT);
    return kGoOn;
  }
  return kActAfter;
}

void act_after() {
  const int saved = errno;
  if (strcmp(fault_action, "killafter") == 0) kill_now();
  if (strncmp(fault_action, "cut=", 4) == 0) {
    struct stat status;
    if (stat(fault_action + 4, &status) == 0 &&
        truncate(fault_action + 4, status.st_size / 2) != 0) {
      abort();
    }
  }
  errno = saved;
}

// A call that returns -1 on failure.
template <typename Call>
long guarded(Kind kind, const Call& call) {
  const Verdict verdict = judge(kind);
  if (verdict == kFail) return -1;
  const long result = call();
  if (verdict == kActAfter) act_after();
  return result;
}

// A call that moves bytes, and may move fewer.
template <typename Call>
ssize_t guarded_bytes(Kind kind, size_t bytes, const Call& call) {
  const Verdict verdict = judge(kind);
  if (verdict == kFail) return -1;
  const ssize_t result = call(verdict == kShort && bytes > 1 ? bytes / 2 : bytes);
  if (verdict == kActAfter) act_after();
  return result;
}

int open_at(int folder, const char* path, int flags, mode_t mode) {
  return static_cast<int>(
      guarded(kOpen, [&] { return syscall(SYS_openat, folder, path, flags, mode); }));
}

mode_t mode_argument(int flags, va_list list) {
  return (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
}

}  // namespace

extern "C" {

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

#define OPEN_BODY(folder)                         \
  va_list list;                                   \
  va_start(list, flags);                          \
  const mode_t mode = mode_argument(flags, list); \
  va_end(list);                                   \
  return open_at(folder, path, flags, mode)

int open(const char* path, int flags, ...) { OPEN_BODY(AT_FDCWD); }
int open64(const char* path, int flags, ...) { OPEN_BODY(AT_FDCWD); }
int openat(int folder, const char* path, int flags, ...) { OPEN_BODY(folder); }
int openat64(int folder, const char* path, int flags, ...) { OPEN_BODY(folder); }

ssize_t read(int fd, void* out, size_t bytes) {
  return guarded_bytes(kRead, bytes,
                       [&](size_t n) { return syscall(SYS_read, fd, out, n); });
}
ssize_t pread(int fd, void* out, size_t bytes, off_t at) {
  return guarded_bytes(kPread, bytes,
                       [&](size_t n) { return syscall(SYS_pread64, fd, out, n, at); });
}
ssize_t pread64(int fd, void* out, size_t bytes, off64_t at) {
  return pread(fd, out, bytes, at);
}
ssize_t write(int fd, const void* in, size_t bytes) {
  return guarded_bytes(kWrite, bytes,
                       [&](size_t n) { return syscall(SYS_write, fd, in, n); });
}
ssize_t pwrite(int fd, const void* in, size_t bytes, off_t at) {
  return guarded_bytes(kPwrite, bytes,
                       [&](size_t n) { return syscall(SYS_pwrite64, fd, in, n, at); });
}
ssize_t pwrite64(int fd, const void* in, size_t bytes, off64_t at) {
  return pwrite(fd, in, bytes, at);
}
// Counted as pwrite.
ssize_t pwritev(int fd, const iovec* in, int count, off_t at) {
  iovec some[8];
  if (count > 8) return errno = EINVAL, -1;
  size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += in[i].iov_len;
  return guarded_bytes(kPwrite, bytes, [&](size_t n) {
    for (int i = 0; i < count; ++i) {
      some[i] = in[i];
      if (some[i].iov_len > n) some[i].iov_len = n;
      n -= some[i].iov_len;
    }
    return syscall(SYS_pwritev, fd, some, count, at, 0L);
  });
}
ssize_t pwritev64(int fd, const iovec* in, int count, off64_t at) {
  return pwritev(fd, in, count, at);
}

int fsync(int fd) {
  return static_cast<int>(guarded(kFsync, [&] { return syscall(SYS_fsync, fd); }));
}
int fdatasync(int fd) {
  return static_cast<int>(guarded(kFsync, [&] { return syscall(SYS_fdatasync, fd); }));
}
int close(int fd) {
  const Verdict verdict = judge(kClose);
  const long result =
      syscall(SYS_close, fd);  // a close that fails has closed all the same
  if (verdict == kFail) {
    errno = fault_error;
    return -1;
  }
  if (verdict == kActAfter) act_after();
  return static_cast<int>(result);
}

int rename(const char* from, const char* to) {
  return static_cast<int>(
      guarded(kRename, [&] { return syscall(SYS_rename, from, to); }));
}
int renameat(int a, const char* from, int b, const char* to) {
  return static_cast<int>(
      guarded(kRename, [&] { return syscall(SYS_renameat2, a, from, b, to, 0); }));
}
int renameat2(int a, const char* from, int b, const char* to, unsigned flags) {
  return static_cast<int>(
      guarded(kRename, [&] { return syscall(SYS_renameat2, a, from, b, to, flags); }));
}
int linkat(int a, const char* from, int b, const char* to, int flags) {
  return static_cast<int>(
      guarded(kLink, [&] { return syscall(SYS_linkat, a, from, b, to, flags); }));
}
int unlinkat(int folder, const char* path, int flags) {
  return static_cast<int>(
      guarded(kUnlink, [&] { return syscall(SYS_unlinkat, folder, path, flags); }));
}
int unlink(const char* path) { return unlinkat(AT_FDCWD, path, 0); }
int mkdirat(int folder, const char* path, mode_t mode) {
  return static_cast<int>(
      guarded(kMkdir, [&] { return syscall(SYS_mkdirat, folder, path, mode); }));
}
int fallocate(int fd, int mode, off_t begin, off_t length) {
  return static_cast<int>(guarded(
      kFallocate, [&] { return syscall(SYS_fallocate, fd, mode, begin, length); }));
}
int fallocate64(int fd, int mode, off64_t begin, off64_t length) {
  return fallocate(fd, mode, begin, length);
}
int ftruncate(int fd, off_t length) {
  return static_cast<int>(
      guarded(kFtruncate, [&] { return syscall(SYS_ftruncate, fd, length); }));
}
int ftruncate64(int fd, off64_t length) { return ftruncate(fd, length); }
int fchmod(int fd, mode_t mode) {
  return static_cast<int>(
      guarded(kFchmod, [&] { return syscall(SYS_fchmod, fd, mode); }));
}
int flock(int fd, int operation) {
  return static_cast<int>(
      guarded(kFlock, [&] { return syscall(SYS_flock, fd, operation); }));
}
int fcntl(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  const long argument = va_arg(list, long);
  va_end(list);
  const auto call = [&] { return syscall(SYS_fcntl, fd, command, argument); };
  const bool dup = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  return static_cast<int>(dup ? guarded(kDup, call) : call());
}
int fcntl64(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  const long argument = va_arg(list, long);
  va_end(list);
  return fcntl(fd, command, argument);
}

void* malloc(size_t bytes) {
  return judge(kMalloc) == kFail ? nullptr : __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  return judge(kMalloc) == kFail ? nullptr : __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  return judge(kMalloc) == kFail ? nullptr : __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return judge(kMalloc) == kFail ? nullptr : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  if (judge(kMalloc) == kFail) return ENOMEM;
  *out = __libc_memalign(alignment, bytes);
  return *out != nullptr ? 0 : ENOMEM;
}

}  // extern "C"
