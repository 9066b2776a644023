# SPDX-License-Identifier: Apache-2.0
# Libraries beyond libc, gathered in one interface target; docs/dependencies.md says why each.
add_library(plb_dependencies INTERFACE)

set(PLB_DNNL "auto" CACHE STRING "oneDNN: auto, on or off")
set_property(CACHE PLB_DNNL PROPERTY STRINGS auto on off)
if(NOT PLB_DNNL STREQUAL "off")
  # Not by its CMake package, which in Debian insists on OpenCL's headers though nothing here uses
  # them.
  find_path(PLB_DNNL_INCLUDE dnnl.h)
  find_library(PLB_DNNL_LIBRARY dnnl)
  if(PLB_DNNL_INCLUDE AND PLB_DNNL_LIBRARY)
    target_include_directories(plb_dependencies SYSTEM INTERFACE ${PLB_DNNL_INCLUDE})
    target_link_libraries(plb_dependencies INTERFACE ${PLB_DNNL_LIBRARY})
    target_compile_definitions(plb_dependencies INTERFACE PLB_HAVE_DNNL=1)
  elseif(PLB_DNNL STREQUAL "on")
    message(FATAL_ERROR "PLB_DNNL=on, but oneDNN was not found (Debian: libdnnl-dev)")
  endif()
endif()

# The f64 reference's matrix products. BLIS first: docs/dependencies.md says why.
set(PLB_BLAS "auto" CACHE STRING "a CBLAS for f64: auto, on or off")
set_property(CACHE PLB_BLAS PROPERTY STRINGS auto on off)
if(NOT PLB_BLAS STREQUAL "off")
  find_path(PLB_BLIS_INCLUDE cblas.h PATH_SUFFIXES blis-openmp NO_CACHE)
  find_library(PLB_BLIS_LIBRARY blis PATH_SUFFIXES blis-openmp NO_CACHE)
  pkg_check_modules(OPENBLAS QUIET IMPORTED_TARGET openblas)
  if(PLB_BLIS_INCLUDE MATCHES "blis" AND PLB_BLIS_LIBRARY)
    target_include_directories(plb_dependencies SYSTEM INTERFACE ${PLB_BLIS_INCLUDE})
    target_link_libraries(plb_dependencies INTERFACE ${PLB_BLIS_LIBRARY})
    target_compile_definitions(plb_dependencies INTERFACE PLB_HAVE_BLAS=1)
  elseif(OPENBLAS_FOUND)
    target_link_libraries(plb_dependencies INTERFACE PkgConfig::OPENBLAS)
    target_compile_definitions(plb_dependencies INTERFACE PLB_HAVE_BLAS=1)
  elseif(PLB_BLAS STREQUAL "on")
    message(FATAL_ERROR "PLB_BLAS=on, but neither BLIS nor OpenBLAS was found "
                        "(Debian: libblis-openmp-dev)")
  endif()
endif()

find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
# 3.38 brought the operator ->> of JSON, 3.37 strict tables.
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3>=3.38)
target_link_libraries(plb_dependencies INTERFACE JPEG::JPEG PNG::PNG ZLIB::ZLIB PkgConfig::JANSSON
                                                 PkgConfig::SQLITE ${CMAKE_DL_LIBS})

# Downloads: libcurl fetches, OpenSSL's libcrypto checks (it is what Debian's libcurl stands on, so
# it adds no library at run time).
set(PLB_CURL "auto" CACHE STRING "libcurl and libcrypto, for downloads: auto, on or off")
set_property(CACHE PLB_CURL PROPERTY STRINGS auto on off)
if(NOT PLB_CURL STREQUAL "off")
  pkg_check_modules(LIBCURL QUIET IMPORTED_TARGET libcurl)
  pkg_check_modules(LIBCRYPTO QUIET IMPORTED_TARGET libcrypto)
  if(LIBCURL_FOUND AND LIBCRYPTO_FOUND)
    target_link_libraries(plb_dependencies INTERFACE PkgConfig::LIBCURL PkgConfig::LIBCRYPTO)
    target_compile_definitions(plb_dependencies INTERFACE PLB_HAVE_CURL=1)
  elseif(PLB_CURL STREQUAL "on")
    message(FATAL_ERROR "PLB_CURL=on, but libcurl or libcrypto was not found "
                        "(Debian: libcurl4-openssl-dev libssl-dev)")
  endif()
endif()
