# rapt_compile_for(NAME SOURCE FLAGS...): compiles one source for an instruction set, as objects of
# rapt_core in the target rapt_isa_NAME.
function(rapt_compile_for name source)
  add_library(rapt_isa_${name} OBJECT ${source})
  set_target_properties(rapt_isa_${name} PROPERTIES UNITY_BUILD OFF)  # it is one file
  target_include_directories(rapt_isa_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  rapt_warnings(rapt_isa_${name})
  # Kernels throw nothing; without this clang emits a weak __clang_call_terminate compiled for the set.
  target_compile_options(rapt_isa_${name} PRIVATE -fno-exceptions -fno-rtti ${ARGN})
  # False alarm in GCC 12's own AVX-512 headers: https://gcc.gnu.org/PR105593
  target_compile_options(rapt_isa_${name} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-uninitialized>)
  if(RAPT_BUILD_FUZZ)  # nothing is computed, and these take longest to compile
    target_compile_options(rapt_isa_${name} PRIVATE -O0 -fno-sanitize=all)
  endif()
  target_sources(rapt_core PRIVATE $<TARGET_OBJECTS:rapt_isa_${name}>)
  set_property(GLOBAL APPEND PROPERTY RAPT_ISA_UNITS ${name})
endfunction()

# rapt_compiles(RESULT FLAGS...): is a set that needs these flags of /proc/cpuinfo compiled? All sets
# are, but a sanitizer build is for the machine that it runs on, and instrumented kernels take longest
# to compile: it leaves out what the machine cannot run.
function(rapt_compiles result)
  set(${result} TRUE PARENT_SCOPE)
  if(NOT RAPT_SANITIZE OR NOT EXISTS /proc/cpuinfo)
    return()
  endif()
  file(STRINGS /proc/cpuinfo flags REGEX "^flags" LIMIT_COUNT 1)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  foreach(flag ${ARGN})
    if(NOT flag IN_LIST flags)
      set(${result} FALSE PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# rapt_add_vectors(NAME FLAGS...): compiles src/kernels/isa_tu.cpp once for an instruction set, with
# the vocabulary src/kernels/simd/NAME.h.
function(rapt_add_vectors isa)
  rapt_compile_for(${isa} ${PROJECT_SOURCE_DIR}/src/kernels/isa_tu.cpp ${ARGN})
  target_compile_definitions(rapt_isa_${isa} PRIVATE
    RAPT_ISA=isa_${isa} RAPT_ISA_NAME="${isa}" RAPT_ISA_HEADER="kernels/simd/${isa}.h")
endfunction()

# rapt_add_isa(NAME FLAGS...): an instruction set that may be chosen. Call it worst first, best last.
function(rapt_add_isa isa)
  rapt_add_vectors(${isa} ${ARGN})
  set_property(GLOBAL APPEND PROPERTY RAPT_ISAS ${isa})
  set_property(GLOBAL APPEND PROPERTY RAPT_VOCABULARIES ${isa})
endfunction()

# rapt_add_tile_isa(NAME VECTORS FLAGS...): the kernels of rapt_add_vectors(VECTORS) with the products
# of tile registers, in the vocabulary src/kernels/simd/NAME.h.
function(rapt_add_tile_isa isa vectors)
  rapt_compile_for(${isa} ${PROJECT_SOURCE_DIR}/src/kernels/amx/tile_routes.cpp ${ARGN})
  target_compile_definitions(rapt_isa_${isa} PRIVATE RAPT_ISA=isa_${isa} RAPT_ISA_NAME="${isa}"
    RAPT_VECTORS=isa_${vectors} RAPT_BF16_TILES=isa_${isa}_bf16)
  rapt_compile_for(${isa}_bf16 ${PROJECT_SOURCE_DIR}/src/kernels/amx/tile_bf16.cpp ${ARGN})
  target_compile_definitions(rapt_isa_${isa}_bf16 PRIVATE RAPT_ISA=isa_${isa}_bf16)
  foreach(unit ${isa} ${isa}_bf16)
    target_compile_definitions(rapt_isa_${unit} PRIVATE RAPT_ISA_HEADER="kernels/simd/${isa}.h")
  endforeach()
  set_property(GLOBAL APPEND PROPERTY RAPT_ISAS ${isa})
endfunction()
