# cmake -DFROM=kernel.cu -DTO=kernel.cc -P emulate.cmake: CUDA's launches, name<<<blocks, threads, shared, stream>>>(arguments), as calls
# of the emulator.
file(READ ${FROM} text)
string(REGEX REPLACE "([A-Za-z0-9_]+(<[A-Za-z0-9_, ]+>)?)<<<([^;]*)>>>\\(" "emulator::launcher(\\3).start(\\1, " text "${text}")
file(WRITE ${TO} "#include <cuda_runtime.h>\n#line 1 \"${FROM}\"\n${text}")
