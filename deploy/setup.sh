#!/usr/bin/env bash
# Makes .venv ready: Debian packages, virtual environment, torch, the pinned packages, benchfarm.
# Does nothing when nothing it depends on has changed. `make setup` calls it; `make test` does with
# --for-tests, which also gets what only tests need.
#
# Read from the environment:
#   PYTHON                  the interpreter to build on (default: python3.11, else python3)
#   BENCHFARM_TORCH_WHEELS  a directory with a wheel of torch
#   BENCHFARM_TORCH_INDEX   a package index with CPU builds of torch
#
# Exit status 2: something is missing that this script can't get; the last line says what to do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV=.venv DEPS=.deps LOCK=requirements/lock.txt
readonly STAMP=$VENV/.setup-stamp WORK_LOCK=$DEPS/setup.lock PIP_LOG=$DEPS/pip.log WHEELS=$DEPS/wheels
readonly LANES=4 # downloads at once
python= # absolute path of the interpreter, once found

say() { echo "setup: $*"; }
fail() {
  echo "setup: $*" >&2
  exit 2
}

# shellcheck source=deploy/debian_packages.sh
. deploy/debian_packages.sh

# The first Python >= 3.11, never one inside a virtual environment (.venv may be the active one).
find_python() {
  local candidate candidates=(python3.11 python3)
  [[ -z ${PYTHON:-} ]] || candidates=("$PYTHON")
  for candidate in "${candidates[@]}"; do
    "$candidate" - 2>/dev/null <<'PY' && return
import os, sys
if sys.version_info < (3, 11):
    sys.exit(1)
print(os.path.realpath(sys.executable))
PY
  done
  return 1
}

fail_without_python() {
  local tried=${PYTHON:-python3}
  fail "needs Python >= 3.11, but $tried is $("$tried" -V 2>/dev/null || echo 'not a program');" \
    "name another with: make setup PYTHON=/path/to/python"
}

provide_packages() {
  local missing
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]} == 0)) || get_packages "${missing[@]}"
  wish_for_launch_packages
  write_env
  # shellcheck disable=SC1091 # written just now
  . "$DEPS/env"
  python=$(find_python) || fail_without_python
  wish_for_compiler
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]} == 0)) || fail "$python still lacks what ${missing[*]} should give it"
}

has_packages_for_tests() {
  has_chromium && has_emulator && has_ssh_server && has_redis_server && has_systemd_analyze
}

provide_packages_for_tests() {
  has_chromium || get_chromium
  has_emulator || get_emulator
  write_env
  has_ssh_server || get_ssh_server
  has_redis_server || get_redis_server
  has_systemd_analyze || get_systemd_analyze
}

# A hash of all that .venv depends on; the directory counts, because .venv holds its path.
fingerprint() {
  { cat pyproject.toml "$LOCK" deploy/*.sh && "$python" -VV && echo "$python $PWD"; } | sha256sum
}

is_current() {
  has_python && [[ -x $VENV/bin/python && -f $STAMP && -f $DEPS/env ]] &&
    [[ $(<"$STAMP") == "$(fingerprint)" ]]
}

# What pip says goes to a log, which is shown when it fails. Python compiles a module when it is first
# imported; most of 15,000 never are.
pip_install() {
  "$VENV/bin/python" -P -m pip install --quiet --no-input --no-compile --require-virtualenv "$@" \
    >"$PIP_LOG" 2>&1
}

install() {
  pip_install "$@" && return
  tail -n 20 "$PIP_LOG" >&2
  fail "pip install failed, as shown above"
}

create_venv() {
  local wheel
  say "creating $VENV with $("$python" -V)"
  if wheel=$(unpacked_pip); then
    "$python" -P -m venv --clear --without-pip "$VENV"
    "$VENV/bin/python" "$wheel/pip" install --quiet --no-index --no-deps "$wheel"
  else
    "$python" -P -m venv --clear "$VENV"
  fi
}

torch_requirement() {
  "$python" -P - <<'PY'
import pathlib, tomllib
project = tomllib.loads(pathlib.Path("pyproject.toml").read_text())["project"]
print(*(pin for pin in project["optional-dependencies"]["torch"] if pin.startswith("torch==")))
PY
}

torch_index_answers() {
  timeout 5 "$python" -P agents/stacks/package_index.py 2>/dev/null
}

# Downloads the locked packages, several at once: pip alone waits for one after another. What it does
# not get is left to install_locked, which says why.
download_locked() {
  local lane
  trap 'kill $(jobs -p) 2>/dev/null' TERM
  rm -rf "$WHEELS" && mkdir -p "$WHEELS"
  for ((lane = 0; lane < LANES; lane++)); do
    locked | awk -v lane="$lane" -v lanes="$LANES" 'NR % lanes == lane' >"$WHEELS/$lane.txt"
    "$VENV/bin/python" -P -m pip wheel --quiet --no-input --no-deps --require-virtualenv \
      --wheel-dir "$WHEELS" --requirement "$WHEELS/$lane.txt" >/dev/null 2>&1 &
  done
  wait
}

locked() { grep -v '^#' "$LOCK"; }

# One process installs them all, so that packages with the same files always come in the same order.
install_locked() {
  local from=()
  if (($(find "$WHEELS" -name "*.whl" | wc -l) == $(locked | wc -l))); then
    from=(--no-index --find-links "$WHEELS")
  fi
  install "${from[@]}" --requirement "$LOCK"
  rm -r "$WHEELS"
}

# torch comes first and alone, so that no other package is ever looked up on its index.
install_torch() {
  local torch wheels=()
  torch=$(torch_requirement)
  [[ -z ${BENCHFARM_TORCH_WHEELS:-} ]] || wheels=(--find-links "$BENCHFARM_TORCH_WHEELS")
  if pip_install --dry-run --no-index --no-deps "${wheels[@]}" "$torch"; then
    say "installing $torch from a local wheel"
    install --no-index --no-deps "${wheels[@]}" "$torch"
  elif [[ -n ${BENCHFARM_TORCH_INDEX:-} ]] && torch_index_answers; then
    say "installing $torch from BENCHFARM_TORCH_INDEX"
    # Every user of the host can read a program's options, and the address may hold a password.
    PIP_INDEX_URL=$BENCHFARM_TORCH_INDEX install --no-deps "$torch"
  else
    say "warning: no local wheel of $torch and no BENCHFARM_TORCH_INDEX that answers in 5 s:" \
      "taking it from pip's index, on x86_64 a CUDA build of several GB"
    install --constraint "$LOCK" "$torch"
  fi
}

verify() {
  local problems
  problems=$("$VENV/bin/python" -P -m pip check 2>&1) ||
    fail "packages don't fit each other (after a change of pyproject.toml: make lock): $problems"
  "$VENV/bin/python" -P - <<'PY'
import platform, torch
from importlib.metadata import version
if any(getattr(torch.version, build, None) for build in ("cuda", "hip", "xpu")):
    print("setup: warning: torch is not a CPU build; it works, but takes several GB")
names = ("torch", "benchfarm")
installed = ", ".join(f"{name} {version(name)}" for name in names)
print(f"setup: Python {platform.python_version()}, {installed}")
PY
}

# Quick when they are up to date, as they are after set_up wherever they can be.
build_kernels() {
  "$VENV/bin/python" -P -m kernels.build 2>"$PIP_LOG" || say "warning: $(<"$PIP_LOG")"
}

# What waits for the network, and what computes, beside it. The stamp is of what there was before:
# what changes meanwhile is installed the next time.
set_up() {
  local downloading compiling stamp
  stamp=$(fingerprint)
  create_venv
  download_locked &
  downloading=$!
  "$VENV/bin/python" -P kernels/build.py 2>/dev/null &
  compiling=$!
  trap "kill $downloading $compiling 2>/dev/null" EXIT
  install_torch
  say "installing $LOCK and benchfarm"
  wait "$downloading"
  install_locked
  wait "$compiling" || true # build_kernels says why
  trap - EXIT
  install --no-deps --editable .
  verify
  echo "$stamp" >"$STAMP"
  say "ready in $SECONDS s"
}

# Uses what was unpacked before, if anything.
look_around() {
  # shellcheck disable=SC1091 # written by write_env
  [[ ! -f $DEPS/env ]] || . "$DEPS/env"
  python=$(find_python) || [[ -z ${PYTHON:-} && -z $(command -v python3) ]] || fail_without_python
}

# One at a time changes .venv and .deps. Children keep the lock, too: should this script be killed, what
# they still write is not written over.
take_turn() {
  mkdir -p "$DEPS"
  exec {turn}>"$WORK_LOCK"
  local status=0
  flock --nonblock "$turn" || status=$?
  case $status in
    0) ;;
    1) say "waiting for another setup in this folder" && flock "$turn" ;;
    *) say "warning: $DEPS can't be locked: run one setup at a time" ;;
  esac
  look_around # another may have done it meanwhile
}

end_turn() { exec {turn}>&-; }

main() {
  export PIP_DISABLE_PIP_VERSION_CHECK=1
  look_around
  if ! is_current; then
    take_turn
    if ! is_current; then
      provide_packages
      set_up
    fi
    end_turn
  fi
  build_kernels
  if [[ ${1:-} == --for-tests ]] && ! has_packages_for_tests; then
    take_turn
    provide_packages_for_tests
    end_turn
  fi
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@" # a test sources it
