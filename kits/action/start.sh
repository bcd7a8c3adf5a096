#!/usr/bin/env bash
# Starts a broker that runs until the job ends, and writes its addresses to GITHUB_OUTPUT. CLOCK and OPTIONS are those of
# `mocketmq serve`, OPTIONS as a shell splits them.
set -euo pipefail

ready=$RUNNER_TEMP/mocketmq-ready.json log=$RUNNER_TEMP/mocketmq.log
rm -f "$ready"
eval "options=(${OPTIONS:-})"
nohup mocketmq serve --port 0 --data :memory: --max-long-poll 1s --clock "$CLOCK" --ready-file "$ready" \
    ${options[@]+"${options[@]}"} >"$log" 2>&1 </dev/null &
broker=$!
until [ -e "$ready" ]; do
    if ! kill -0 "$broker" 2>/dev/null; then
        echo "::error::mocketmq did not start: $(tr '\n' ' ' <"$log")"
        exit 1
    fi
    sleep 0.1
done
address() {
    sed -n "s/.*\"$1\":{\"port\":[0-9]*,\"address\":\"\([^\"]*\)\".*/\1/p" "$ready"
}
{
    echo "url=$(address http)"
    echo "name-server=$(address namesrv)"
    echo "endpoints=$(address grpc)"
} >>"$GITHUB_OUTPUT"
