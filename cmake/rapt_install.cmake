# Installs rapt::core and, if built, rapt::io, rapt::nn, rapt::checkpoint, rapt::generation, rapt::text, rapt::training and
# rapt::viz, each with its headers, CMake package and pkg-config file, and the command line. The installed tree can be moved:
# no path of it is written anywhere.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rapt)

# While 0.x, the minor version is the one that breaks: libraries of 0.1 and 0.2 lie side by side.
set(so_version ${PROJECT_VERSION_MAJOR})
set(compatibility SameMajorVersion)
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(so_version 0.${PROJECT_VERSION_MINOR})
  set(compatibility SameMinorVersion)
endif()

# The prefix as seen from the .pc files, so that they need not know where they are installed.
file(RELATIVE_PATH prefix_from_pc
     ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" prefix_from_pc ${prefix_from_pc})
set(pc_dirs "")
foreach(dir LIBDIR INCLUDEDIR)
  string(TOLOWER ${dir} name)
  cmake_path(IS_ABSOLUTE CMAKE_INSTALL_${dir} absolute)
  if(absolute)
    string(APPEND pc_dirs "${name}=${CMAKE_INSTALL_${dir}}\n")
  else()
    string(APPEND pc_dirs "${name}=\${prefix}/${CMAKE_INSTALL_${dir}}\n")
  endif()
endforeach()

# rapt_install_component(NAME PC_NAME DESCRIPTION [REQUIRES ...] [REQUIRES_PRIVATE ...])
function(rapt_install_component name pc_name description)
  cmake_parse_arguments(A "" "" "REQUIRES;REQUIRES_PRIVATE" ${ARGN})
  set_target_properties(rapt_${name} PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${so_version} INSTALL_RPATH "$ORIGIN")
  install(TARGETS rapt_${name} EXPORT rapt-${name}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT rapt-${name} NAMESPACE rapt:: FILE rapt-${name}-targets.cmake
          DESTINATION ${package_dir})

  get_target_property(library_name rapt_${name} OUTPUT_NAME)
  if(NOT library_name)
    set(library_name rapt_${name})
  endif()
  string(JOIN " " requires ${A_REQUIRES})
  string(JOIN " " requires_private ${A_REQUIRES_PRIVATE})
  # The C++ run time, for consumers that link with cc: rapt_c.h is C. Threads and dlopen, for those
  # whose C library is older than glibc 2.34.
  set(libs_private "-lstdc++ -lm -pthread")
  foreach(library ${CMAKE_DL_LIBS})
    string(APPEND libs_private " -l${library}")
  endforeach()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/rapt.pc.in ${PROJECT_BINARY_DIR}/${pc_name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${pc_name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

rapt_install_component(core rapt "Exact attention, fast and open to inspection")
set(headers_left_out "")
if(TARGET rapt_io)
  rapt_install_component(io rapt-io "Tensors in files, for rapt" REQUIRES rapt
                         REQUIRES_PRIVATE zlib)
else()
  list(APPEND headers_left_out PATTERN io EXCLUDE)
endif()
if(TARGET rapt_nn)
  rapt_install_component(nn rapt-nn "Layers around attention, with gradients" REQUIRES rapt)
else()
  list(APPEND headers_left_out PATTERN nn EXCLUDE)
endif()
if(TARGET rapt_generation)
  rapt_install_component(generation rapt-generation "Texts continued by language models, for rapt"
                         REQUIRES rapt-nn)
else()
  list(APPEND headers_left_out PATTERN generation EXCLUDE)
endif()
if(TARGET rapt_checkpoint)
  rapt_install_component(checkpoint rapt-checkpoint "Language models in files, for rapt"
                         REQUIRES rapt-nn rapt-io)
else()
  list(APPEND headers_left_out PATTERN checkpoint EXCLUDE)
endif()
if(TARGET rapt_model)
  rapt_install_component(model rapt-model "Trained encoders in files, for rapt"
                         REQUIRES rapt-checkpoint)
else()
  list(APPEND headers_left_out PATTERN model EXCLUDE)
endif()
if(TARGET rapt_text)
  rapt_install_component(text rapt-text "Tokenizers, for rapt" REQUIRES rapt-io)
else()
  list(APPEND headers_left_out PATTERN text EXCLUDE)
endif()
if(TARGET rapt_training)
  rapt_install_component(training rapt-training "Language models trained on texts, for rapt"
                         REQUIRES rapt-checkpoint rapt-text)
else()
  list(APPEND headers_left_out PATTERN training EXCLUDE)
endif()
if(TARGET rapt_viz)
  rapt_install_component(viz rapt-viz "Attention as pictures, from plain arrays" REQUIRES rapt
                         REQUIRES_PRIVATE libpng)
else()
  list(APPEND headers_left_out PATTERN viz EXCLUDE)
endif()

if(RAPT_BUILD_SHARED_C)
  set_target_properties(rapt_c PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${so_version})
  install(TARGETS rapt_c LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/rapt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" ${headers_left_out})

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/rapt-config.cmake.in ${PROJECT_BINARY_DIR}/rapt-config.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rapt-config-version.cmake
                                 COMPATIBILITY ${compatibility})
install(FILES ${PROJECT_BINARY_DIR}/rapt-config.cmake
              ${PROJECT_BINARY_DIR}/rapt-config-version.cmake
        DESTINATION ${package_dir})

if(TARGET rapt_cli)
  file(RELATIVE_PATH lib_from_bin ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(rapt_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${lib_from_bin}")
  install(TARGETS rapt_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET rapt_manual)
  # Where man(1) and the shells look for what a package brings.
  get_target_property(manual rapt_manual FOLDER_OF_PAGES)
  install(DIRECTORY ${manual}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
  set(completions ${manual}/completions)
  install(FILES ${completions}/rapt.bash RENAME rapt
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${completions}/rapt.zsh RENAME _rapt
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${completions}/rapt.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
