// Which variants this machine can run. Compiled for the plainest CPU, as it runs on all of them.

#define EXPORT extern "C" __attribute__((visibility("default")))

// The digest of the sources this library was built from; kernels/library.py compares it.
EXPORT const char *benchfarm_kernels_sources() { return SOURCES; }

// Each asks CPUID what the CPU has, and XGETBV whether the system saves its registers.
EXPORT int supports_scalar() { return 1; }
EXPORT int supports_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
EXPORT int supports_avx512() {
  return supports_avx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
EXPORT int supports_avx512_bf16() {
  return supports_avx512() && __builtin_cpu_supports("avx512bf16");
}
