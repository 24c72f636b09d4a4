# Pictures of maps, on top of multihead::multihead, for the command line and the Python package: libpng is no dependency of the
# libraries. Private to this project: never installed.
find_package(PNG REQUIRED)
file(GLOB picture_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/picture/*.cc)
add_library(multihead_picture STATIC ${picture_sources})
multihead_target(multihead_picture)
target_include_directories(multihead_picture PUBLIC ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(multihead_picture PUBLIC multihead::multihead PRIVATE PNG::PNG)
