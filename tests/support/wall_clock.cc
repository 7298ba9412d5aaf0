// Preloaded into every process of a test's host: its wall clock is ahead by as many seconds as a
// file says, which may be written at any time. The monotonic clocks and the kernel's are untouched.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ctime>
#include <unistd.h>

namespace {

const volatile double* map_offset() {
  static const double none = 0.0;
  const int file = open(OFFSET_FILE, O_RDONLY | O_CLOEXEC);
  if (file < 0) return &none;
  void* mapped = mmap(nullptr, sizeof(double), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  return mapped == MAP_FAILED ? &none : static_cast<const double*>(mapped);
}

time_t offset_s() {
  static const volatile double* const offset = map_offset();
  return static_cast<time_t>(*offset);
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, struct timespec* now) noexcept {
  static auto* const ask = real<int(clockid_t, struct timespec*)>("clock_gettime");
  const int status = ask(clock, now);
  if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    now->tv_sec += offset_s();
  }
  return status;
}

int gettimeofday(struct timeval* now, void*) noexcept {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* now) noexcept {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (now != nullptr) *now = precise.tv_sec;
  return precise.tv_sec;
}

}  // extern "C"
