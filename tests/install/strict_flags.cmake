# rapt's headers must be clean under the flags of a careful consumer. Not as system headers, whose
# warnings compilers drop.
set(CMAKE_NO_SYSTEM_FROM_IMPORTED ON)
add_compile_options(-Wall -Wextra -Wconversion -Wno-sign-conversion -pedantic -Werror)
