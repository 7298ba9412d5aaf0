# shellcheck shell=bash disable=SC2154 # DEPS, python, say and fail are the caller's
# What benchfarm needs of Debian, and how to get it with and without root. For deploy/setup.sh.

# A check (run with $python set, if there is one), and the package that satisfies it.
declare -rA PACKAGE_FOR=(
  [has_python]=python3
  [has_pip]=python3-venv
  [has_libgomp]=libgomp1
  [has_prometheus]=prometheus
)
# What the pages of Debian's Prometheus load: scripts, styles and a font.
readonly PROMETHEUS_PAGES=(
  fonts-glyphicons-halflings libjs-bootstrap4 libjs-d3 libjs-eonasdan-bootstrap-datetimepicker libjs-jquery
  libjs-jquery-hotkeys libjs-moment libjs-moment-timezone libjs-mustache libjs-popper.js libjs-rickshaw
)
# Wished for, not needed: without it the kernels run in plain torch.
readonly COMPILER_PACKAGE=g++
has_compiler() {
  local compiler=("${CXX:-c++}")
  # With arguments, quoted as kernels/build.py reads them.
  command -v "${compiler[0]}" >/dev/null || mapfile -t compiler < <(xargs printf '%s\n' <<<"${CXX:-c++}" 2>/dev/null)
  "${compiler[@]}" -x c++ -fopenmp -fsyntax-only /dev/null 2>/dev/null
}

# Wished for, not needed: launch settings that ask for one are refused where it is absent.
declare -rA LAUNCH_PACKAGE_FOR=(
  [has_jemalloc]=libjemalloc2
  [has_tcmalloc]=libtcmalloc-minimal4
  [has_llvm_openmp]=libomp5
  [has_numactl]=numactl
)
has_jemalloc() { has_library libjemalloc.so.2; }
has_tcmalloc() { has_library libtcmalloc_minimal.so.4; }
has_llvm_openmp() { has_library libomp.so.5; }
has_numactl() { command -v numactl >/dev/null; }
has_library() { compgen -G "/usr/lib/*-linux-gnu/$1" || compgen -G "$DEPS/root/usr/lib/*-linux-gnu/$1"; } \
  >/dev/null

# Only tests need these: `make test` gets them, `make setup` does not.
readonly BROWSER_PACKAGE=chromium SYSTEMD_PACKAGE=systemd EMULATOR_PACKAGE=qemu-user-static
readonly SSH_PACKAGES=(openssh-client openssh-server libwrap0 rsync libpopt0)
readonly REDIS_PACKAGES=(redis-server redis-tools libatomic1 libjemalloc2 liblzf1)

# All of it, a name a line, for the bill of materials.
packages_for_setup() {
  printf '%s\n' "${PACKAGE_FOR[@]}" "${PROMETHEUS_PAGES[@]}" "$COMPILER_PACKAGE" "${LAUNCH_PACKAGE_FOR[@]}" |
    sort -u
}
packages_for_tests() {
  printf '%s\n' "$BROWSER_PACKAGE" "$SYSTEMD_PACKAGE" "$EMULATOR_PACKAGE" "${SSH_PACKAGES[@]}" "${REDIS_PACKAGES[@]}" |
    sort -u
}

has_python() { [[ -n $python ]]; }
has_pip() { unpacked_pip >/dev/null || "$python" -c 'import ensurepip' 2>/dev/null; }
has_libgomp() { "$python" -c 'import ctypes; ctypes.CDLL("libgomp.so.1")' 2>/dev/null; }
has_prometheus() { command -v prometheus && command -v promtool; } >/dev/null

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

# Downloads packages and unpacks them in a directory, which may hold others: all of them, or none. The
# checks look for a file by its name: half a file would count as a whole one.
unpack() {
  local into=$1 deb
  shift
  [[ -d $into || ! -d $into.old ]] || mv -T "$into.old" "$into" || return # killed in between
  rm -rf "$DEPS/debs" "$into.new" "$into.old" && mkdir -p "$DEPS/debs" "$into.new" || return
  (cd "$DEPS/debs" && apt-get -o APT::Sandbox::User=root download -qq "$@") || return
  if [[ -d $into ]] && ! cp --archive --link "$into/." "$into.new" 2>/dev/null; then
    rm -rf "$into.new" && cp --archive "$into" "$into.new" || return # no hard links here
  fi
  for deb in "$DEPS"/debs/*.deb; do
    dpkg -x "$deb" "$into.new" || return # replaces files, never writes into them
  done
  [[ ! -d $into ]] || mv -T "$into" "$into.old" || return
  mv -T "$into.new" "$into" && rm -rf "$DEPS/debs" "$into.old"
}

# Without root: the packages and all they need, in a directory.
unpack_packages() {
  local into=$1 needed
  shift
  needed=$(apt-get install --simulate --no-install-recommends "$@" |
    awk '$1 == "Inst" { print $2 }') || return
  # shellcheck disable=SC2086 # a list of names
  unpack "$into" $needed
}

# Always unpacked: installed, Debian's package would start a service on port 9090.
unpack_prometheus() {
  ((EUID != 0)) || apt-get update -qq || return
  unpack "$DEPS/root" prometheus || return
  # What its pages load; other releases of Debian may name these packages otherwise.
  unpack "$DEPS/root" "${PROMETHEUS_PAGES[@]}" || say "Prometheus's own pages will lack scripts"
  rm -rf "$DEPS/root/usr/share/javascript/moment-timezone/data" # 200 MB, which no page loads
}

get_packages() {
  local package others=()
  say "getting $*"
  for package in "$@"; do
    [[ $package == prometheus ]] || others+=("$package")
  done
  if ((${#others[@]} > 0)); then
    get_others "${others[@]}"
  fi
  if ((${#others[@]} < $#)); then
    unpack_prometheus 2>/dev/null ||
      fail "can't get prometheus; run as root: apt-get update, or put prometheus and promtool" \
        "into PATH"
  fi
}

get_others() {
  if ((EUID == 0)); then
    install_packages "$@"
  else
    unpack_packages "$DEPS/root" "$@" 2>/dev/null
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

has_chromium() { command -v chromium >/dev/null; }

get_chromium() {
  say "getting chromium, for tests"
  if ((EUID == 0)); then
    install_packages "$BROWSER_PACKAGE"
  else
    unpack_chromium 2>/dev/null
  fi || say "warning: can't get chromium: without it, tests of reports are skipped;" \
    "as root: apt-get update && apt-get install -y --no-install-recommends chromium"
}

# Unpacked, it has to be told where its libraries and fonts are; nothing else shall use those.
unpack_chromium() {
  local root=$PWD/$DEPS/chromium bin=$DEPS/root/usr/bin libs
  libs=$root/usr/lib/$(uname -m)-linux-gnu
  unpack_packages "$root" "$BROWSER_PACKAGE" && mkdir -p "$bin" || return
  cat >"$root/fonts.conf" <<CONF
<fontconfig><dir>$root/usr/share/fonts</dir><dir>/usr/share/fonts</dir>
<cachedir>$root/fonts</cachedir></fontconfig>
CONF
  cat >"$bin/chromium" <<SH
#!/bin/sh
export FONTCONFIG_FILE=${root@Q}/fonts.conf
export LD_LIBRARY_PATH=${libs@Q}:${libs@Q}/pulseaudio:${root@Q}/lib/$(uname -m)-linux-gnu
exec ${root@Q}/usr/lib/chromium/chromium "\$@"
SH
  chmod +x "$bin/chromium"
}

# For tests of `ray up`, which goes over ssh. Always unpacked, in a place of its own that only those
# tests look at: installed, it would start a server.
has_ssh_server() { [[ -x $DEPS/ssh/usr/sbin/sshd && -x $DEPS/ssh/usr/bin/rsync ]]; }

get_ssh_server() {
  say "getting an ssh server, for tests"
  { ((EUID != 0)) || apt-get update -qq; } &&
    unpack "$DEPS/ssh" "${SSH_PACKAGES[@]}" 2>/dev/null ||
    say "warning: can't get openssh-server and rsync: without them, tests of ray up are skipped"
}

# For tests of a lost head. Unpacked in a place of its own, for the same reason.
has_redis_server() { [[ -x $DEPS/redis/usr/bin/redis-server ]]; }

get_redis_server() {
  say "getting a Redis server, for tests"
  { ((EUID != 0)) || apt-get update -qq; } &&
    unpack "$DEPS/redis" "${REDIS_PACKAGES[@]}" 2>/dev/null ||
    say "warning: can't get redis-server: without it, tests of a head with Redis are skipped"
}

# For tests on a virtual phone with an arm64 processor. Always unpacked: installed, it would run
# programs of every processor on the whole machine. Of forty emulators, one stays.
has_emulator() { command -v qemu-aarch64-static || command -v qemu-aarch64; } >/dev/null

get_emulator() {
  local bin=$DEPS/root/usr/bin
  say "getting qemu, for tests"
  { ((EUID != 0)) || apt-get update -qq; } &&
    unpack "$DEPS/qemu" "$EMULATOR_PACKAGE" 2>/dev/null && mkdir -p "$bin" &&
    mv "$DEPS/qemu/usr/bin/qemu-aarch64-static" "$bin" && rm -r "$DEPS/qemu" ||
    say "warning: can't get $EMULATOR_PACKAGE: without it, tests on an arm64 phone are skipped"
}

# For tests of the systemd units. Unpacked in a place of its own: no machine gets another init by it.
has_systemd_analyze() {
  command -v systemd-analyze >/dev/null || [[ -x $DEPS/systemd/usr/bin/systemd-analyze ]]
}

get_systemd_analyze() {
  say "getting systemd-analyze, for tests"
  { ((EUID != 0)) || apt-get update -qq; } && unpack_packages "$DEPS/systemd" "$SYSTEMD_PACKAGE" 2>/dev/null ||
    say "warning: can't get systemd: without it, tests of the systemd units are skipped"
}

wish_for_launch_packages() {
  local check missing=()
  for check in "${!LAUNCH_PACKAGE_FOR[@]}"; do
    "$check" || missing+=("${LAUNCH_PACKAGE_FOR[$check]}")
  done
  ((${#missing[@]} == 0)) || (get_packages "${missing[@]}") ||
    say "warning: launch settings that need ${missing[*]} will be refused"
}

# .deps/env makes what lies under .deps/root usable; every target of the Makefile reads it.
write_env() {
  local root=$PWD/$DEPS/root libs
  libs=lib/$(uname -m)-linux-gnu
  mkdir -p "$DEPS"
  {
    echo "# Written by deploy/setup.sh: the way to what it unpacked under $DEPS, if anything."
    if [[ -d $root ]]; then
      echo "export PATH=\"\$PATH\":${root@Q}/usr/bin"
    fi
    if [[ -d $root/usr/$libs || -d $root/$libs ]]; then
      libs=${root@Q}/usr/$libs:${root@Q}/$libs
      echo "export LD_LIBRARY_PATH=$libs\"\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}\""
    fi
  } >"$DEPS/env.new" && mv "$DEPS/env.new" "$DEPS/env" # others may be reading it
}
