# pith_warnings(TARGET): the warnings every target of this project is built with.
function(pith_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                           -Wno-sign-conversion -Wnon-virtual-dtor -Wold-style-cast)
  if(PITH_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
