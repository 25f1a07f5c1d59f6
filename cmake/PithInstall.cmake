# find_package(pith) and pkg-config from an install.
include(CMakePackageConfigHelpers)

install(TARGETS pith EXPORT pithTargets)
install(DIRECTORY include/pith TYPE INCLUDE)
install(EXPORT pithTargets NAMESPACE pith:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/pith)

configure_package_config_file(cmake/pithConfig.cmake.in pithConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/pith)
write_basic_package_version_file(pithConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/pithConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/pithConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/pith)

# Users of a static library link what it uses, those of a shared one need not know.
set(PITH_PC_PRIVATE "")
if(BUILD_SHARED_LIBS)
  set(PITH_PC_PRIVATE ".private")
endif()
configure_file(cmake/pith.pc.in pith.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/pith.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
