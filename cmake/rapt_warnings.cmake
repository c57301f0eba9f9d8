# Warnings for rapt's own targets; a consumer's flags are not touched.
function(rapt_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra $<IF:$<CXX_COMPILER_ID:GNU>,-Wshadow=local,-Wshadow> -Wconversion -Wno-sign-conversion
                         $<$<BOOL:${RAPT_WERROR}>:-Werror>)
  # The same roundings with every compiler: no contraction of a * b + c that the source does not ask for.
  target_compile_options(${target} PRIVATE -ffp-contract=off)
endfunction()
