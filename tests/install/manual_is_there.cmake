# Checks that manual pages and completions are installed where man(1) and the shells look for them,
# and are not empty. FILES are relative to PREFIX.
foreach(file ${FILES})
  file(SIZE ${PREFIX}/${file} size)
  if(size EQUAL 0)
    message(FATAL_ERROR "${file} is empty")
  endif()
endforeach()
