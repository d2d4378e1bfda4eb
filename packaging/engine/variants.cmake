# Included by CMake at the end of `project("llama.cpp")`: lets the build of xllamacpp, which links static libraries, use
# llama.cpp as shared libraries with one CPU backend for each kind of processor.

# Shared libraries find each other in the folder that they are in.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN")

# xllamacpp builds a target `ggml-cpu`, which does not exist with several CPU backends, and links `lib*.a`. The linker
# looks at the contents of a file, not at its name, so a link to a shared library will do.
function(add_names_for_xllamacpp)
    set(names "${CMAKE_BINARY_DIR}/names")
    file(MAKE_DIRECTORY "${names}")
    add_custom_target(ggml-cpu)
    add_custom_command(TARGET ggml-cpu POST_BUILD COMMAND "${CMAKE_AR}" rcs "${names}/libggml-cpu.a")
    add_names_in("${CMAKE_SOURCE_DIR}")
endfunction()

function(add_names_in folder)
    get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target IN LISTS targets)
        get_target_property(type ${target} TYPE)
        if(type STREQUAL "SHARED_LIBRARY")
            add_custom_command(TARGET ggml-cpu POST_BUILD COMMAND
                "${CMAKE_COMMAND}" -E create_symlink "$<TARGET_FILE:${target}>" "${names}/lib${target}.a")
            add_dependencies(ggml-cpu ${target})
        endif()
    endforeach()
    get_property(folders DIRECTORY "${folder}" PROPERTY SUBDIRECTORIES)
    foreach(each IN LISTS folders)
        add_names_in("${each}")
    endforeach()
endfunction()

cmake_language(DEFER CALL add_names_for_xllamacpp)
