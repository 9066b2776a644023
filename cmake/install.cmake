# SPDX-License-Identifier: Apache-2.0
# What `make install` puts where. Manual page and completion are printed by the program itself, so
# that they cannot differ from it.
include(GNUInstallDirs)

set(PLB_GENERATED ${CMAKE_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${PLB_GENERATED})
add_custom_command(
  OUTPUT ${PLB_GENERATED}/plumb.1 ${PLB_GENERATED}/plumb ${PLB_GENERATED}/_plumb
  COMMAND plumb_cli manual > ${PLB_GENERATED}/plumb.1
  COMMAND plumb_cli completion bash > ${PLB_GENERATED}/plumb
  COMMAND plumb_cli completion zsh > ${PLB_GENERATED}/_plumb
  DEPENDS plumb_cli
  COMMENT "Writing manual page and completion")
add_custom_target(plumb_manual DEPENDS ${PLB_GENERATED}/plumb.1)

# DT_RPATH and not DT_RUNPATH: only the former also serves the libraries' own libraries, which
# `make dist` puts into the same folder.
set_target_properties(plumb_library PROPERTIES INSTALL_RPATH "$ORIGIN")
set_target_properties(plumb_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
target_link_options(plumb_library PRIVATE -Wl,--disable-new-dtags)
target_link_options(plumb_cli PRIVATE -Wl,--disable-new-dtags)

configure_file(cmake/plumb.pc.in ${PLB_GENERATED}/plumb.pc @ONLY)
install(TARGETS plumb_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS plumb_library LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/plumb DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(DIRECTORY stacks/ DESTINATION ${CMAKE_INSTALL_DATADIR}/plumb/stacks
        PATTERN __pycache__ EXCLUDE)
install(DIRECTORY studies/ DESTINATION ${CMAKE_INSTALL_DATADIR}/plumb/studies
        FILES_MATCHING PATTERN "*.yaml")
install(FILES ${PLB_GENERATED}/plumb.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${PLB_GENERATED}/plumb.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${PLB_GENERATED}/plumb
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${PLB_GENERATED}/_plumb DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
