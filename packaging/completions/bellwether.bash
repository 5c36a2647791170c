# Bash completion for bellwether. The program itself prints the completions from its option tables.
_bellwether() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    case $before in
    --*-file | --*-ca | --*-cert | --*-key | --*-path | --ca | --cert | --config | --data | --key | --members | --script | --svg | --trace | --users)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
        ;;
    esac
    mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _bellwether bellwether
