# Run at build time: the program RAPT writes its manual pages and completions into FOLDER, as
# man1/NAME.1 and completions/rapt.SHELL.
function(write_output file)
  execute_process(COMMAND ${RAPT} ${ARGN} OUTPUT_FILE ${FOLDER}/${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${FOLDER})  # pages of commands that are gone
file(MAKE_DIRECTORY ${FOLDER}/man1 ${FOLDER}/completions)
write_output(man1/rapt.1 man)
execute_process(COMMAND ${RAPT} --json-usage OUTPUT_VARIABLE usage COMMAND_ERROR_IS_FATAL ANY)
string(JSON count LENGTH "${usage}" commands)
math(EXPR last "${count} - 1")
foreach(i RANGE ${last})
  string(JSON name GET "${usage}" commands ${i} name)
  string(REPLACE "rapt " "" word "${name}")
  write_output(man1/rapt-${word}.1 man ${word})
endforeach()
foreach(shell bash zsh fish)
  write_output(completions/rapt.${shell} completions ${shell})
endforeach()
file(TOUCH ${FOLDER}/written)
