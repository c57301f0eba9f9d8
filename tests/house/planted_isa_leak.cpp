// A kernel that uses an inline function outside its own namespace. dev/check_isa_leaks.sh must
// report it.
namespace rapt {

inline __attribute__((noinline)) int planted_leak(int x) { return x + 1; }

namespace isa_planted {
int kernel(int x) { return planted_leak(x); }
}  // namespace isa_planted

}  // namespace rapt
