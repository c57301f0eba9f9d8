// Looks like a kernel, but uses an inline function that is not its own: what
// dev/check_isa_leaks.sh exists to find.
namespace rapt {

inline __attribute__((noinline)) int planted_leak(int x) { return x + 1; }

namespace isa_planted {
int kernel(int x) { return planted_leak(x); }
}  // namespace isa_planted

}  // namespace rapt
