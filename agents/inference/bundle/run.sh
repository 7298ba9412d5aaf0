#!/bin/sh
# Starts the runner from wherever this folder lies: run SPEC.json
# Nothing outside the folder is loaded, written or needed, not even PATH.
case $0 in
*/*) here=${0%/*} ;;
*) here=. ;;
esac
unset CDPATH
here=$(cd "$here" && pwd) || exit 1
unset LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT PYTHONSTARTUP PYTHONPLATLIBDIR
export PYTHONHOME="$here/python"
export PYTHONPATH="$here/app:$here/packages"
export PYTHONDONTWRITEBYTECODE=1 PYTHONSAFEPATH=1
export PYTHONUTF8=1 PYTHONCOERCECLOCALE=0 LC_ALL=C # no locale data of the host
export OPENBLAS_NUM_THREADS=1 # numpy's, which would start idle threads
exec "$here/lib/@LOADER@" --inhibit-cache --library-path "$here/lib" \
    "$here/python/bin/python@PYTHON@" -P -S -m agents.inference.runner "$@"
