# Do man(1) and the shells find what the installed program says about itself? FILES, below PREFIX.
foreach(file ${FILES})
  file(SIZE ${PREFIX}/${file} size)
  if(size EQUAL 0)
    message(FATAL_ERROR "${file} is empty")
  endif()
endforeach()
