# Included by CMake at the end of `project("llama.cpp")`: lets the build of xllamacpp, which links static libraries, use
# llama.cpp as shared libraries with one CPU backend for each kind of processor.
#
# Shared libraries find each other in the folder that they are in.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN")

# xllamacpp builds a target `ggml-cpu`, which does not exist with several CPU backends, and links `lib*.a`. The linker
# looks at the contents of a file, not at its name, so a link to a shared library will do.
function(add_names_for_xllamacpp)
    set(libraries mtmd llama-common llama ggml ggml-base)
    set(names "${CMAKE_BINARY_DIR}/names")
    file(MAKE_DIRECTORY "${names}")
    add_custom_target(ggml-cpu)
    foreach(library IN LISTS libraries)
        add_custom_command(TARGET ggml-cpu POST_BUILD
            COMMAND "${CMAKE_COMMAND}" -E create_symlink "$<TARGET_FILE:${library}>" "${names}/lib${library}.a")
        add_dependencies(ggml-cpu ${library})
    endforeach()
    add_custom_command(TARGET ggml-cpu POST_BUILD COMMAND "${CMAKE_AR}" rcs "${names}/libggml-cpu.a")
endfunction()

cmake_language(DEFER CALL add_names_for_xllamacpp)
