"""Android's own commands, as shell scripts in the phone's /system/bin.

They read files of the phone: properties, settings and outputs of its services.
"""

from __future__ import annotations

from collections.abc import Collection

from agents.virtual_phone.filesystem import PROPERTIES, SERVICES, SETTINGS

_GETPROP = f"""#!/system/bin/sh
cd {PROPERTIES} || exit
if [ $# -eq 0 ]; then
  for name in *; do printf '[%s]: [%s]\\n' "$name" "$(cat "$name")"; done
elif [ -f "$1" ]; then
  cat "$1"
else
  echo "${{2-}}"
fi
"""

_SETPROP = f"""#!/system/bin/sh
[ $# -eq 2 ] || {{ echo "usage: setprop NAME VALUE" >&2; exit 1; }}
case $1 in
  ro.*|*/*) echo "Failed to set property '$1' to '$2'." >&2; exit 1 ;;
esac
echo "$2" >{PROPERTIES}/"$1"
"""

_DUMPSYS = f"""#!/system/bin/sh
cd {SERVICES} || exit
case ${{1-}} in
  '') for name in *; do echo "DUMP OF SERVICE $name:"; cat "$name"; done ;;
  -l) echo "Currently running services:"; for name in *; do echo "  $name"; done ;;
  *) if [ -f "$1" ]; then cat "$1"; else echo "Can't find service: $1"; fi ;;
esac
"""

_SETTINGS = f"""#!/system/bin/sh
# As Android's: a value that isn't set is "null", and deleting tells how many rows went.
verb=${{1-}} namespace=${{2-}} key=${{3-}}
case $verb in
  get|put|delete) ;;
  *) echo "usage: settings get|put|delete NAMESPACE KEY [VALUE]" >&2; exit 1 ;;
esac
case $namespace in
  global|system|secure) ;;
  *) echo "Invalid namespace '$namespace'" >&2; exit 255 ;;
esac
[ -n "$key" ] || {{ echo "Bad arguments" >&2; exit 255; }}
cd {SETTINGS} || exit
file=$namespace.$key
case $verb in
  get) if [ -f "$file" ]; then cat "$file"; else echo null; fi ;;
  put)
    [ $# -ge 4 ] || {{ echo "Bad arguments" >&2; exit 255; }}
    if ! printf '%s\\n' "$4" >"$file" 2>/dev/null; then
      echo "Permission denial: writing to settings requires WRITE_SECURE_SETTINGS" >&2
      exit 255
    fi ;;
  delete)
    if [ ! -f "$file" ]; then echo "Deleted 0 rows"
    elif rm "$file" 2>/dev/null; then echo "Deleted 1 rows"
    else exit 255; fi ;;
esac
"""

_PM = """#!/system/bin/sh
# Keeps what is installed as a file in /data/app; its name comes from the file's, or its hash:
# of an APK nothing is read but that it is one: a ZIP archive with a manifest.
store() {
  part=/data/app/.installing-$$
  if ! cat >"$part" 2>/dev/null; then
    rm -f "$part"
    echo "Failure [INSTALL_FAILED_INSUFFICIENT_STORAGE]"
    exit 1
  fi
  if [ -n "${2-}" ] && [ "$(wc -c <"$part")" -ne "$2" ]; then
    rm -f "$part"
    echo "Failure [INSTALL_FAILED_INVALID_APK: fewer bytes than announced]"
    exit 1
  fi
  if [ "$(head -c 2 "$part")" != PK ] || ! grep -qa AndroidManifest.xml "$part"; then
    rm -f "$part"
    echo "Failure [INSTALL_PARSE_FAILED_NOT_APK: it is no Android package]"
    exit 1
  fi
  name=${1:-benchfarm.sha256_$(sha256sum <"$part" | head -c 16)}
  mv "$part" "/data/app/$name.apk"
  echo Success
}
verb=${1-}
[ $# -eq 0 ] || shift
case $verb in
  install)
    size= file=
    while [ $# -gt 0 ]; do
      case $1 in
        -S) size=$2; shift ;;
        -i|--user|--abi|--install-location) shift ;;
        -*) ;;
        *) file=$1 ;;
      esac
      shift
    done
    if [ -n "$file" ] && [ "$file" != - ]; then
      name=$(basename "$file" .apk)
      store "$name" <"$file"
    elif [ -n "$size" ]; then
      head -c "$size" | store "" "$size"
    else
      echo "Error: must either specify a package size or an APK file" >&2
      exit 1
    fi ;;
  uninstall)
    if rm "/data/app/$1.apk" 2>/dev/null; then echo Success
    else echo "Failure [DELETE_FAILED_INTERNAL_ERROR]"; exit 1; fi ;;
  list)
    for file in /data/app/*.apk; do
      if [ -f "$file" ]; then echo "package:$(basename "$file" .apk)"; fi
    done ;;
  path)
    [ -f "/data/app/$1.apk" ] && echo "package:/data/app/$1.apk" ;;
  *) echo "Unknown command: $verb" >&2; exit 255 ;;
esac
"""

_LOGCAT = """#!/system/bin/sh
echo "logcat: a virtual phone keeps no log; its daemon's is phone.log, on its host" >&2
exit 1
"""

_CMD = """#!/system/bin/sh
service=${1-}
[ $# -eq 0 ] || shift
case $service in
  package) exec pm "$@" ;;
  settings) exec settings "$@" ;;
  connectivity)
    # From Android 11 on; whoever only sets airplane_mode_on has turned no radio off.
    if [ "$(getprop ro.build.version.sdk)" -lt 30 ]; then
      echo "No shell command implementation." >&2
      exit 255
    fi
    case "$*" in
      "airplane-mode enable") exec settings put global airplane_mode_on 1 ;;
      "airplane-mode disable") exec settings put global airplane_mode_on 0 ;;
      airplane-mode)
        if [ "$(settings get global airplane_mode_on)" = 1 ]; then echo enabled
        else echo disabled; fi ;;
      *) echo "Unknown command: ${1-}" >&2; exit 255 ;;
    esac ;;
  *) echo "cmd: Can't find service: $service" >&2; exit 20 ;;
esac
"""


def scripts(*, old: bool, programs: Collection[str] = ()) -> dict[str, str]:
    """Return the script of each command by name; Android 5 has no `cmd`.

    programs: only these commands; empty: all.
    """
    commands = {
        "getprop": _GETPROP,
        "setprop": _SETPROP,
        "dumpsys": _DUMPSYS,
        "settings": _SETTINGS,
        "pm": _PM,
        "logcat": _LOGCAT,
    }
    known = commands if old else commands | {"cmd": _CMD}
    return {name: known[name] for name in known if not programs or name in programs}
