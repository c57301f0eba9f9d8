# rapt_build_info(TARGET SOURCE): tells SOURCE, a file of TARGET, what this build is: version, commit,
# compiler and build type. The commit is looked up at every build, because it changes without CMake
# being run; the header is rewritten only if it differs, so that an unchanged tree builds nothing.
function(rapt_build_info target source)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/build_info)
  set(header ${folder}/rapt_commit.inc)
  find_package(Git QUIET)
  add_custom_target(${target}_commit
    COMMAND ${CMAKE_COMMAND} -D SOURCE_DIR=${PROJECT_SOURCE_DIR} -D HEADER=${header}
            -D GIT=${GIT_EXECUTABLE} -P ${PROJECT_SOURCE_DIR}/cmake/write_commit.cmake
    BYPRODUCTS ${header}
    COMMENT "Looking up the commit"
    VERBATIM)
  add_dependencies(${target} ${target}_commit)

  set(compiler ${CMAKE_CXX_COMPILER_ID})
  string(REGEX REPLACE "^GNU$" "g++" compiler "${compiler}")
  string(REGEX REPLACE "^(Apple)?Clang$" "clang++" compiler "${compiler}")
  set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS
    RAPT_VERSION="${PROJECT_VERSION}"
    RAPT_COMPILER="${compiler} ${CMAKE_CXX_COMPILER_VERSION}"
    RAPT_BUILD_TYPE="$<CONFIG>")
  set_property(SOURCE ${source} APPEND PROPERTY INCLUDE_DIRECTORIES ${folder})
endfunction()
