# rapt_add_isa(NAME FLAGS...): compiles src/kernels/isa_tu.cpp once for an instruction set, with the
# vocabulary src/kernels/simd/NAME.h, as objects of rapt_core. Call it worst first, best last.
function(rapt_add_isa isa)
  add_library(rapt_isa_${isa} OBJECT ${PROJECT_SOURCE_DIR}/src/kernels/isa_tu.cpp)
  target_include_directories(rapt_isa_${isa} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(rapt_isa_${isa} PRIVATE
    RAPT_ISA=isa_${isa} RAPT_ISA_NAME="${isa}" RAPT_ISA_HEADER="kernels/simd/${isa}.h")
  rapt_warnings(rapt_isa_${isa})
  # Kernels throw nothing; without this clang emits a weak __clang_call_terminate compiled for the set.
  target_compile_options(rapt_isa_${isa} PRIVATE -fno-exceptions -fno-rtti ${ARGN})
  # False alarm in GCC 12's own AVX-512 headers: https://gcc.gnu.org/PR105593
  target_compile_options(rapt_isa_${isa} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-uninitialized>)
  target_sources(rapt_core PRIVATE $<TARGET_OBJECTS:rapt_isa_${isa}>)
  set_property(GLOBAL APPEND PROPERTY RAPT_ISAS ${isa})
endfunction()
