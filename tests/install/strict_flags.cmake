# rapt's headers must compile without warnings under strict flags. They are not system headers here,
# because compilers drop the warnings of those.
set(CMAKE_NO_SYSTEM_FROM_IMPORTED ON)
add_compile_options(-Wall -Wextra -Wconversion -Wno-sign-conversion -pedantic -Werror)
