"""A stranger's project builds against the library in each way that the package promises, and prints right results.

Usage: install_test.py SOURCE PREFIX WORK CXX
  SOURCE  this repository        PREFIX  where static libraries were installed
  WORK    a folder for builds    CXX     the compiler
"""
import pathlib
import shutil
import subprocess
import sys

STRANGER = pathlib.Path(__file__).resolve().parent / "stranger"

EXPECTED = {
    "attend": "output 3.0000, lse 1.3863\n",
    "layer": "1.9426 0.0574 1.9426 0.0574\n0.2114 1.7886 1.9426 0.0574\n1.9426 0.0574 0.2114 1.7886\n",
}


def run(*command):
    """Runs a command; its output goes to the end of an error message, else to the caller."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}\nexit status {done.returncode}")
    return done.stdout


def build_stranger(title, build, compiler, components, *options):
    """Configures, builds and runs the stranger's programs and compares what they print."""
    print(f"-- {title}", flush=True)
    run("cmake", "-S", STRANGER, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_CXX_COMPILER={compiler}",
        f"-DCOMPONENTS={';'.join(components)}", *options)
    run("cmake", "--build", build)
    for program in ["attend", "layer"][:len(components)]:
        printed = run(build / program)
        print(printed, end="", flush=True)
        if not printed.endswith(EXPECTED[program]):
            sys.exit(f"{program}: expected\n{EXPECTED[program]}")


def without(*packages):
    """CMake options under which find_package finds none of these."""
    return [f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON" for package in packages]


def check_hidden(library):
    """A shared library's symbol table holds the interface, not the libraries inside."""
    exported = run("nm", "-DC", "--defined-only", library)
    if "multihead::" not in exported:
        sys.exit(f"{library}: exports nothing of multihead")
    for inside in ("nlohmann::", "hwy::"):
        if inside in exported:
            sys.exit(f"{library}: exports {inside}")


def main():
    source, prefix, work = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    compiler = sys.argv[4]
    both = ["attention", "multihead"]
    shared = work / "shared"  # kept between runs: it compiles the library anew
    for folder in ("shared-prefix", "moved-prefix", "attention", "static", "moved"):
        shutil.rmtree(work / folder, ignore_errors=True)

    build_stranger("find_package, attention alone", work / "attention", compiler, both[:1],
                   f"-DCMAKE_PREFIX_PATH={prefix}", *without("nlohmann_json"))
    build_stranger("find_package, static libraries", work / "static", compiler, both, f"-DCMAKE_PREFIX_PATH={prefix}",
                   *without("nlohmann_json"))

    build_stranger("add_subdirectory, shared libraries", shared, compiler, both, f"-DMULTIHEAD_SOURCE={source}",
                   "-DBUILD_SHARED_LIBS=ON", "-DMULTIHEAD_INSTALL=ON",
                   # What links is the question, not how fast it is.
                   "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DMULTIHEAD_LEAVE_OUT=HWY_SSSE3|HWY_SSE4|HWY_AVX3")
    prefix = work / "shared-prefix"
    run("cmake", "--install", shared, "--prefix", prefix)
    prefix = prefix.rename(work / "moved-prefix")
    build_stranger("find_package, shared libraries, installed and moved", work / "moved", compiler, both,
                   f"-DCMAKE_PREFIX_PATH={prefix}", *without("hwy", "OpenMP", "nlohmann_json"))
    for library in sorted(prefix.glob("lib*/**/libmultihead*.so")):
        check_hidden(library)


if __name__ == "__main__":
    main()
