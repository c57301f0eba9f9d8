#include "check/problem/parse_method.h"

#include "check/problem/variant_text.h"
#include "rapt/catalogue.h"

namespace check {

std::string parse_method(Scanner& in) {
  const size_t begin = in.position();
  read_name(in, "a method", rapt::method_declarations());
  const size_t column = in.position() + in.next_is('(');
  if (in.take("(")) in.until("):"), in.expect(")");
  return made_at(in, column, [&] {
    const auto method = rapt::make_method(in.since(begin));
    rapt::check_parameters(method->declaration(), dynamic_cast<const void*>(method.get()));
    return rapt::to_string(*method);
  });
}

}  // namespace check
