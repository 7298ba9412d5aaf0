# Completion of benchfarm's command line for bash 4.4 and later.
# Offered names are quoted before they are inserted; nothing of them is evaluated.

# Print a name as it has to be written after what is typed, which may have an open quote.
_benchfarm_quoted() {
    case ${COMP_WORDS[COMP_CWORD]}:$1 in
        \'*) printf '%s' "${1//\'/\'\\\'\'}" ;;
        \"*!*) printf '%q' "$1" ;;
        \"*) printf '%s' "$1" | sed 's/[\\"$`]/\\&/g' ;;
        *) printf '%q' "$1" ;;
    esac
}

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
        [[ $value ]] && COMPREPLY+=("$(_benchfarm_quoted "${value#"$before"}")")
    done < <(env COMP_WORDS="$line" COMP_CWORD=-1 _BENCHFARM_COMPLETE=complete_bash \
        benchfarm 2>/dev/null </dev/null)
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace
    fi
}

complete -o default -F _benchfarm_completion benchfarm
