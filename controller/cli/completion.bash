# Completion of benchfarm's command line for bash 4.4 and later.
# Offered names are quoted before they are inserted; nothing of them is evaluated.

_benchfarm_completion() {
    local line=${COMP_LINE:0:COMP_POINT} typed before value
    typed=${line##*[[:space:]]}
    # Bash replaces what follows the last = or : only.
    before=${typed%"$2"}
    [[ $before == --*=* ]] && before=${before#*=}
    # An empty last word would be lost.
    [[ $line == *[[:space:]] ]] && line+="''"
    COMPREPLY=()
    while IFS= read -r value; do
        [[ $value ]] && COMPREPLY+=("$(printf '%q' "${value#"$before"}")")
    done < <(env COMP_WORDS="$line" COMP_CWORD=-1 _BENCHFARM_COMPLETE=complete_bash \
        benchfarm 2>/dev/null </dev/null)
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace
    fi
}

complete -o default -F _benchfarm_completion benchfarm
