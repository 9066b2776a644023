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

# Data sets that come in archives, and VOC's annotations.
set(PLB_ARCHIVE "auto" CACHE STRING "libarchive, for data sets in tar files: auto, on or off")
set_property(CACHE PLB_ARCHIVE PROPERTY STRINGS auto on off)
if(NOT PLB_ARCHIVE STREQUAL "off")
  pkg_check_modules(LIBARCHIVE QUIET IMPORTED_TARGET libarchive)
  if(LIBARCHIVE_FOUND)
    target_link_libraries(plb_dependencies INTERFACE PkgConfig::LIBARCHIVE)
    target_compile_definitions(plb_dependencies INTERFACE PLB_HAVE_ARCHIVE=1)
  elseif(PLB_ARCHIVE STREQUAL "on")
    message(FATAL_ERROR "PLB_ARCHIVE=on, but libarchive was not found (Debian: libarchive-dev)")
  endif()
endif()
set(PLB_XML "auto" CACHE STRING "libxml2, for annotations of data sets: auto, on or off")
set_property(CACHE PLB_XML PROPERTY STRINGS auto on off)
if(NOT PLB_XML STREQUAL "off")
  pkg_check_modules(LIBXML QUIET IMPORTED_TARGET libxml-2.0)
  if(LIBXML_FOUND)
    target_link_libraries(plb_dependencies INTERFACE PkgConfig::LIBXML)
    target_compile_definitions(plb_dependencies INTERFACE PLB_HAVE_XML=1)
  elseif(PLB_XML STREQUAL "on")
    message(FATAL_ERROR "PLB_XML=on, but libxml2 was not found (Debian: libxml2-dev)")
  endif()
endif()

# Studies are written in YAML.
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
target_link_libraries(plb_dependencies INTERFACE PkgConfig::YAML)

# ONNX: protobuf-c's tables are generated from the schema that a package brings.
set(PLB_ONNX "auto" CACHE STRING "reading and writing ONNX, by protobuf-c: auto, on or off")
set_property(CACHE PLB_ONNX PROPERTY STRINGS auto on off)
set(PLB_HAVE_ONNX OFF)
if(NOT PLB_ONNX STREQUAL "off")
  pkg_check_modules(PROTOBUF_C QUIET IMPORTED_TARGET libprotobuf-c)
  find_program(PLB_PROTOC_C protoc-c)
  find_file(PLB_ONNX_SCHEMA NAMES onnx-ml.proto onnx.proto PATH_SUFFIXES onnx
            PATHS /usr/include /usr/local/include NO_DEFAULT_PATH)
  if(NOT PLB_ONNX_SCHEMA) # the wheel of the Python package `onnx` has it too
    foreach(python "$ENV{PLB_PYTHON}" python3)
      if(python AND NOT PLB_ONNX_SCHEMA)
        execute_process(
          COMMAND
            ${python} -c
            "import importlib.util as u; print(*u.find_spec('onnx').submodule_search_locations)"
          OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
        find_file(PLB_ONNX_SCHEMA NAMES onnx-ml.proto PATHS "${folder}" NO_DEFAULT_PATH)
      endif()
    endforeach()
  endif()
  if(PROTOBUF_C_FOUND AND PLB_PROTOC_C AND PLB_ONNX_SCHEMA)
    set(PLB_HAVE_ONNX ON)
    set(folder ${CMAKE_BINARY_DIR}/onnx_schema)
    add_custom_command(
      OUTPUT ${folder}/onnx.pb-c.c ${folder}/onnx.pb-c.h
      COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
      COMMAND ${CMAKE_COMMAND} -E copy ${PLB_ONNX_SCHEMA} ${folder}/onnx.proto
      COMMAND ${PLB_PROTOC_C} --c_out=${folder} -I${folder} ${folder}/onnx.proto
      DEPENDS ${PLB_ONNX_SCHEMA} VERBATIM)
    add_library(plumb_onnx_schema STATIC ${folder}/onnx.pb-c.c ${folder}/onnx.pb-c.h)
    target_compile_options(plumb_onnx_schema PRIVATE -w)
    target_include_directories(plumb_onnx_schema SYSTEM INTERFACE ${folder})
    target_link_libraries(plumb_onnx_schema PUBLIC PkgConfig::PROTOBUF_C)
    target_link_libraries(plb_dependencies INTERFACE plumb_onnx_schema)
    target_compile_definitions(plb_dependencies INTERFACE PLB_HAVE_ONNX=1)
  elseif(PLB_ONNX STREQUAL "on")
    message(FATAL_ERROR "PLB_ONNX=on, but protobuf-c, protoc-c or onnx.proto was not found "
                        "(Debian: libprotobuf-c-dev protobuf-c-compiler libonnx-dev)")
  endif()
endif()

# Pictures of figures: only headers here, the library is opened when the first one is drawn.
set(PLB_CAIRO "auto" CACHE STRING "PNG and PDF of figures, by cairo: auto, on or off")
set_property(CACHE PLB_CAIRO PROPERTY STRINGS auto on off)
set(PLB_HAVE_CAIRO OFF)
if(NOT PLB_CAIRO STREQUAL "off")
  pkg_check_modules(CAIRO QUIET cairo cairo-pdf)
  if(CAIRO_FOUND)
    set(PLB_HAVE_CAIRO ON)
    target_include_directories(plb_dependencies SYSTEM INTERFACE ${CAIRO_INCLUDE_DIRS})
    target_compile_definitions(plb_dependencies INTERFACE PLB_HAVE_CAIRO=1)
  elseif(PLB_CAIRO STREQUAL "on")
    message(FATAL_ERROR "PLB_CAIRO=on, but cairo was not found (Debian: libcairo2-dev)")
  endif()
endif()

# The store as local pages.
set(PLB_HTTP "auto" CACHE STRING "plumb serve, by libmicrohttpd: auto, on or off")
set_property(CACHE PLB_HTTP PROPERTY STRINGS auto on off)
set(PLB_HAVE_HTTP OFF)
if(NOT PLB_HTTP STREQUAL "off")
  pkg_check_modules(MICROHTTPD QUIET IMPORTED_TARGET libmicrohttpd>=0.9.71)
  if(MICROHTTPD_FOUND)
    set(PLB_HAVE_HTTP ON)
    target_link_libraries(plb_dependencies INTERFACE PkgConfig::MICROHTTPD)
    target_compile_definitions(plb_dependencies INTERFACE PLB_HAVE_HTTP=1)
  elseif(PLB_HTTP STREQUAL "on")
    message(FATAL_ERROR "PLB_HTTP=on, but libmicrohttpd was not found "
                        "(Debian: libmicrohttpd-dev)")
  endif()
endif()
