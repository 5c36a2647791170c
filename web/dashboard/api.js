/* Requests to the server of this page, and to no other. Bytes are base64 in JSON, as in etcd's gateway. */

const QUIET_MS = 5000; // a stream that is silent for this long is dead: the dashboard's sends each second
const ANSWER_MS = 10000;

let token = "";

export function setToken(text) {
    token = text;
}

export class Refused extends Error {
    constructor(status, message) {
        super(message);
        this.status = status;
        // etcd answers 400 if users are enabled and the request has no token
        this.needsLogin = status === 401 || status === 403 || message.includes("user name is empty");
    }
}

async function post(path, body, signal) {
    const headers = {"Content-Type": "application/json"};
    if (token)
        headers.Authorization = token;
    return fetch(path, {method: "POST", headers, body: JSON.stringify(body), signal, credentials: "same-origin", redirect: "error"});
}

async function refusal(response) {
    let message = response.statusText;
    try {
        const answer = JSON.parse((await response.text()).split("\n", 1)[0]);
        message = String(answer.error?.message ?? answer.message ?? message);
    } catch {
        // not JSON: the status has to do
    }
    return new Refused(response.status, message);
}

export async function ask(path, body) {
    const response = await post(path, body, AbortSignal.timeout(ANSWER_MS));
    if (!response.ok)
        throw await refusal(response);
    return response.json();
}

/* Calls `take` with each message until the stream ends, then throws. `isPeriodic`: silence means that it is dead. */
export async function follow(path, body, take, isPeriodic, signal) {
    const stop = new AbortController();
    signal.addEventListener("abort", () => stop.abort(), {once: true});
    let timer = 0;
    const alive = () => {
        clearTimeout(timer);
        if (isPeriodic)
            timer = setTimeout(() => stop.abort(), QUIET_MS);
    };
    alive();
    try {
        const response = await post(path, body, stop.signal);
        if (!response.ok)
            throw await refusal(response);
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        let rest = "";
        for (;;) {
            const {value, done} = await reader.read();
            if (done)
                throw new Error("the server closed the connection");
            alive();
            const lines = (rest + value).split("\n");
            rest = lines.pop();
            for (const line of lines) {
                const message = JSON.parse(line);
                if (message.error)
                    throw new Refused(message.error.http_code ?? 0, String(message.error.message ?? ""));
                take(message.result ?? {});
            }
        }
    } finally {
        clearTimeout(timer);
        stop.abort();
    }
}

export function toText(base64) {
    return new TextDecoder().decode(Uint8Array.from(atob(base64 ?? ""), (letter) => letter.charCodeAt(0)));
}

export function toBase64(text) {
    return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
