# Run at build time: writes into HEADER the commit of SOURCE_DIR as a string literal, "-dirty" behind
# it where files differ from the commit, "unknown" where the folder is not a git checkout of its own
# (a release archive, or a copy inside another project's repository).
set(commit unknown)
if(GIT AND EXISTS ${SOURCE_DIR}/.git)
  # No optional locks: a build must not get in the way of a git command in another terminal.
  execute_process(
    COMMAND ${GIT} --no-optional-locks -C ${SOURCE_DIR}
            describe --always --dirty --abbrev=8 --exclude=*
    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(commit ${described})
  endif()
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "\"${commit}\"\n" @ONLY)
