# Fish completion for bellwether. The program itself prints the completions from its option tables.
function __bellwether_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    if string match -qr -- '^--(.+-(file|ca|cert|key|path)|ca|cert|config|data|key|members|script|svg|trace|users)$' "$words[-1]"
        __fish_complete_path "$current"
        return
    end
    $words[1] --complete $words[2..-1] "$current" 2>/dev/null
end
complete -c bellwether -f -a '(__bellwether_complete)'
