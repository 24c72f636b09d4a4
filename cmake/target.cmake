# How every target of this project is compiled.

function(multihead_target target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                                             POSITION_INDEPENDENT_CODE ON)
  # No contraction: a * b + c rounds twice wherever the source does not say fma, so that a value computed by two pieces of code
  # has the same bits in both, with every compiler. For the same reason there is no -ffast-math.
  # {.heads = 8} leaves the other members at their defaults, which is what defaults are for: no warning about that.
  target_compile_options(${target} PRIVATE -ffp-contract=off -Wall -Wextra -Wconversion -Wshadow -Wno-missing-field-initializers)
  if(MULTIHEAD_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(MULTIHEAD_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${MULTIHEAD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${MULTIHEAD_SANITIZE})
  endif()
endfunction()

# A library that programs link: its users see include/ alone and need C++20.
function(multihead_library target export_name)
  multihead_target(${target})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                                       PRIVATE ${PROJECT_SOURCE_DIR}/src)
  # Before 1.0 any minor version may change the ABI.
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${export_name} VERSION ${PROJECT_VERSION}
                                             SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} INSTALL_RPATH "$ORIGIN")
endfunction()
