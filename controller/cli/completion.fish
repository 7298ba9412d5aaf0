# Completion of benchfarm's command line for fish.
# Offered names are quoted by fish; nothing of them is evaluated.

function __benchfarm_complete
    set -l line (commandline -cp | string join \n)
    set -l token (commandline -ct)
    set -l found (env _TYPER_COMPLETE_ARGS="$line" _TYPER_COMPLETE_FISH_ACTION=get-args \
        _BENCHFARM_COMPLETE=complete_fish benchfarm 2>/dev/null </dev/null | string match -r '.+')
    if test (count $found) -eq 0
        __fish_complete_path "$token"
        return
    end
    set -l before ''
    if string match -qr '^--[^=]+=' -- "$token"
        set before (string split -m 1 = -- "$token")[1]=
    end
    printf '%s\n' $before$found
end

complete --command benchfarm --no-files --arguments '(__benchfarm_complete)'
