# Warnings for rapt's own targets; a consumer's flags are not touched.
function(rapt_warnings target)
  # GCC's whole -Wshadow objects to constructor arguments named after the members that they set.
  target_compile_options(${target} PRIVATE
    -Wall -Wextra $<IF:$<CXX_COMPILER_ID:GNU>,-Wshadow=local,-Wshadow> -Wconversion
    -Wno-sign-conversion $<$<BOOL:${RAPT_WERROR}>:-Werror>)
  # False alarm for std::string's operator+ at -O2: https://gcc.gnu.org/PR105651
  target_compile_options(${target} PRIVATE
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)
  # GCC takes the files of a group for headers, in which a type of an unnamed namespace would be one
  # per file that includes them.
  target_compile_options(${target} PRIVATE
    $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wno-subobject-linkage>)
  # The same roundings with every compiler: no contraction of a * b + c that the source does not ask for.
  target_compile_options(${target} PRIVATE -ffp-contract=off)
endfunction()
