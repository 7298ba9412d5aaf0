# Completion of benchfarm's command line for bash 4.4 and later.
# Offered names are quoted before they are inserted; nothing of them is evaluated.

# Offer a name. After an open quote, one that would need more quoting is left out.
_benchfarm_offer() {
    case ${COMP_WORDS[COMP_CWORD]} in
        [\'\"]*) [[ $1 == *[\'\"\\\$\`!]* ]] || COMPREPLY+=("$1") ;;
        *) COMPREPLY+=("$(printf '%q' "$1")") ;;
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
        [[ $value ]] && _benchfarm_offer "${value#"$before"}"
    done < <(env COMP_WORDS="$line" COMP_CWORD=-1 _BENCHFARM_COMPLETE=complete_bash \
        benchfarm 2>/dev/null </dev/null)
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace
    fi
}

complete -o default -F _benchfarm_completion benchfarm
