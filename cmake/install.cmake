# Two export sets, so that find_package(multihead COMPONENTS attention) asks a stranger's machine for Highway and OpenMP only.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/multihead)

install(DIRECTORY include/multihead DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(TARGETS multihead_attention EXPORT multihead-attention-targets)
install(EXPORT multihead-attention-targets NAMESPACE multihead:: DESTINATION ${package_dir})
if(TARGET multihead)
  install(TARGETS multihead EXPORT multihead-multihead-targets)
  install(EXPORT multihead-multihead-targets NAMESPACE multihead:: DESTINATION ${package_dir})
endif()
if(TARGET multihead_cli)
  install(TARGETS multihead_cli)
  # The model that `multihead look` takes by default; whatever training left beside it stays here.
  set(model ${PROJECT_SOURCE_DIR}/models/austen)
  install(FILES ${model}/config.json ${model}/model.safetensors ${model}/README.md
          DESTINATION ${CMAKE_INSTALL_DATADIR}/multihead/models/austen OPTIONAL)
endif()

# A static library leaves its own dependencies to whoever links it; a shared one has taken care of them.
if(BUILD_SHARED_LIBS)
  set(MULTIHEAD_IS_STATIC OFF)
else()
  set(MULTIHEAD_IS_STATIC ON)
endif()
configure_package_config_file(cmake/multihead-config.cmake.in multihead-config.cmake INSTALL_DESTINATION ${package_dir}
                              NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(multihead-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/multihead-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/multihead-config-version.cmake
        DESTINATION ${package_dir})
