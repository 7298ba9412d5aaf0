#compdef benchfarm
# Completion of benchfarm's command line for zsh.
# Offered names are quoted by compadd; nothing of them is evaluated.

_benchfarm() {
    local line=${(j: :)${(@)words[1,CURRENT-1]}}" $PREFIX" value help
    local -a open closed shown
    while IFS=$'\t' read -r value help; do
        if [[ $value == *= ]]; then
            open+=("$value")
        elif [[ -n $value ]]; then
            closed+=("$value")
            shown+=("$value${help:+  -- $help}")
        fi
    done < <(env _TYPER_COMPLETE_ARGS="$line" _TYPER_COMPLETE_FISH_ACTION=get-args \
        _BENCHFARM_COMPLETE=complete_fish benchfarm 2>/dev/null </dev/null)
    if (( ! $#open && ! $#closed )); then
        _files
        return
    fi
    [[ $PREFIX == --*=* ]] && compset -P 1 '*='
    (( $#open )) && compadd -S '' -a open
    (( $#closed )) && compadd -l -d shown -a closed
}

if [[ ${funcstack[1]} == _benchfarm ]]; then
    _benchfarm "$@"
else
    compdef _benchfarm benchfarm
fi
