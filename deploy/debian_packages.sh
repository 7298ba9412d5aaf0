# shellcheck shell=bash disable=SC2154 # DEPS, python, say and fail are the caller's
# What benchfarm needs of Debian, and how to get it with and without root. For deploy/setup.sh.

# A check (run with $python set, if there is one), and the package that satisfies it.
declare -rA PACKAGE_FOR=(
  [has_python]=python3
  [has_pip]=python3-venv
  [has_libgomp]=libgomp1
)
# Wished for, not needed: without it the kernels run in plain torch.
readonly COMPILER_PACKAGE=g++
has_compiler() { "${CXX:-c++}" -x c++ -fopenmp -fsyntax-only /dev/null 2>/dev/null; }

has_python() { [[ -n $python ]]; }
has_pip() { unpacked_pip >/dev/null || "$python" -c 'import ensurepip' 2>/dev/null; }
has_libgomp() { "$python" -c 'import ctypes; ctypes.CDLL("libgomp.so.1")' 2>/dev/null; }

# The wheel of pip that Debian's ensurepip would look for under /usr/share.
unpacked_pip() { compgen -G "$DEPS/root/usr/share/python-wheels/pip-*.whl" | tail -n 1; }

missing_packages() {
  local check
  for check in "${!PACKAGE_FOR[@]}"; do
    "$check" || echo "${PACKAGE_FOR[$check]}"
  done | sort
}

install_packages() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# Without root: the packages and all they need, unpacked under .deps/root.
unpack_packages() {
  local needed deb
  needed=$(apt-get install --simulate --no-install-recommends "$@" |
    awk '$1 == "Inst" { print $2 }') || return
  rm -rf "$DEPS/debs" && mkdir -p "$DEPS/debs" "$DEPS/root" || return
  # shellcheck disable=SC2086 # a list of names
  (cd "$DEPS/debs" && apt-get download -qq $needed) || return
  for deb in "$DEPS"/debs/*.deb; do
    dpkg -x "$deb" "$DEPS/root" || return
  done
  rm -r "$DEPS/debs"
}

get_packages() {
  say "getting $*"
  if ((EUID == 0)); then
    install_packages "$@"
  else
    unpack_packages "$@" 2>/dev/null
  fi || fail "can't get $*; run as root:" \
    "apt-get update && apt-get install -y --no-install-recommends $*"
}

# An unpacked compiler would not find its headers: without root it has to be there already.
wish_for_compiler() {
  has_compiler && return
  ((EUID != 0)) || (get_packages "$COMPILER_PACKAGE") && has_compiler && return
  say "warning: there is no C++ compiler: kernels will run in plain torch; to have them compiled," \
    "run as root: apt-get install -y --no-install-recommends $COMPILER_PACKAGE"
}

# .deps/env makes what lies under .deps/root usable; every target of the Makefile reads it.
write_env() {
  local root=$PWD/$DEPS/root libs
  libs=lib/$(uname -m)-linux-gnu
  libs=${root@Q}/usr/$libs:${root@Q}/$libs
  mkdir -p "$DEPS"
  {
    echo "# Written by deploy/setup.sh: the way to what it unpacked under $DEPS, if anything."
    if [[ -d $root ]]; then
      echo "export PATH=\"\$PATH\":${root@Q}/usr/bin"
      echo "export LD_LIBRARY_PATH=$libs\"\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}\""
    fi
  } >"$DEPS/env"
}
