"""Errors of the command line name the typed option, use its units, and have their own exit code."""

import shlex

import pytest

from tests.support.command_line import Shell
from tests.support.process import forked_broker

ERRORS = r"""
send orders x --delay soon | 2 | --delay is 'soon'; allowed: a duration such as 200ms
send orders x --delay 1 | 2 | --delay is '1'; allowed: a duration such as 200ms
send orders x --delay -1s | 2 | --delay is '-1s'; allowed: a duration such as 200ms
send orders x --delay 41d | 1 | --delay is '41d'; allowed: a duration from 0 to 40d, the most that the setting
send orders x --level 99999999999 | 1 | --level is 99999999999; allowed: a whole number from -2147483648
send orders x --level x | 2 | '--level': 'x' is not a valid integer
send orders x --level 1 --delay 1s | 2 | only one of --level, --delay and --at can be given
send orders x --at 0 --delay 1s | 2 | only one of --level, --delay and --at can be given
send orders x --at 2030-01-31T08:00:00 | 2 | --at is '2030-01-31T08:00:00'; allowed: epoch milliseconds, or
send orders x --at 99999999999999999999 | 2 | or an instant with Z or an offset, such as 2030-01-31T08:00:00Z
send orders x --at 253402300799999 | 1 | --at is '253402300799999'; allowed: at most 40d ahead, now up to 2
send orders x --at 1960-01-01T00:00:00Z | 1 | an instant from 1970-01-01T00:00:00.000Z to 9999-12-31T23:59:59

send '' x | 1 | TOPIC is ''; allowed: 1 to 127 characters of a-z
send 'a b' x | 1 | TOPIC is 'a b'; allowed: 1 to 127 characters of a-z
send orders '' | 1 | BODY is ''; allowed: text that is not empty
send orders 'more than 16 bytes' | 1 | BODY: the body takes 18 bytes; allowed: 1 to 16
send orders | 2 | Missing argument 'BODY'
send orders x --tag '' | 1 | --tag is ''; allowed: text that is not empty
send orders x --key a --key 'b c' | 1 | --key is 'b c'; allowed: text without spaces and control characters
send orders x --property novalue | 2 | 'novalue' is not NAME=VALUE
send orders x --property a= | 2 | 'a=' is not NAME=VALUE
send orders x --property =1 | 2 | '=1' is not NAME=VALUE
send orders x --property a=1 --property DELAY=3 | 1 | --property is 'DELAY=3'; allowed: only --level
send orders x --property KEYS=3 | 1 | --property is 'KEYS=3'; allowed: only --key
send orders x --property TIMER_DELAY_MS=1 --level 2 | 1 | allowed: no value, because --level is given
send orders x --property __STARTDELIVERTIME=abc | 1 | '__STARTDELIVERTIME=abc'; allowed: milliseconds since
send orders x --queue -1 | 1 | --queue is -1; allowed: a whole number from 0 to 8191
send orders x --queue 99 | 1 | --queue is 99; allowed: 0 to 3
send orders x --lite-topic 'a b' | 1 | --lite-topic is 'a b'; allowed: 1 to 64 letters, digits, hyphens and

receive '' --group g | 1 | TOPIC is ''; allowed: 1 to 127
receive orders --group '' | 1 | --group is ''; allowed: 1 to 255
receive orders --group 'a b' | 1 | --group is 'a b'; allowed: 1 to 255
receive orders --group g --max 0 | 1 | --max is 0; allowed: a whole number from 1 to 256
receive orders --group g --wait 10m | 1 | --wait is '10m'; allowed: a duration from 0 to 30s, the most that
receive order --group g | 4 | topic order does not exist; did you mean orders?
receive orders --group g --wait soon | 2 | --wait is 'soon'; allowed: a duration such as
receive orders --group g --filter '||' | 1 | such as A || B; with --sql a condition on properties
receive orders --group g --sql 'a =' | 1 | --sql: line 1, column 4 of the filter: the expression ends
receive orders --group g --sql 'a = 1' --filter A | 2 | only one of --filter and --sql can be given

wait '' | 1 | TOPIC is ''; allowed: 1 to 127
wait orders --count 0 | 1 | --count is 0; allowed: a whole number from 1
wait orders --wait 10m | 1 | --wait is '10m'; allowed: a duration from 0 to 30s, the most that the s
wait orders --wait soon | 2 | --wait is 'soon'; allowed: a duration such as
peek '' | 1 | TOPIC is ''; allowed: 1 to 127
peek nosuch | 4 | topic[nosuch] not exist
peek orders --queue 99 | 4 | --queue is 99; allowed: 0 to 3
peek orders --queue -1 | 1 | --queue is -1; allowed: a whole number from 0 to 8191
peek orders --max 0 | 2 | '--max': 0 is not in the range
find '' | 1 | KEY is ''; allowed: text of 1 to 255 characters
find 7 --topic 'a b' | 1 | --topic is 'a b'; allowed: 1 to 127
find 7 --max 0 | 1 | --max is 0; allowed: a whole number from 1 to 256
groups create '' | 1 | NAME is ''; allowed: 1 to 255
groups create g --max-retries -1 | 1 | --max-retries is -1; allowed: a whole number from 0 to 1000
groups create g --retry-queues 65 | 1 | --retry-queues is 65; allowed: a whole number from 1 to 64
groups reset nosuch orders | 4 | subscription group not exist, nosuch
groups reset g orders --to end --at 0 | 2 | only one of --to, --at and --offset can be given
groups reset g orders --offset 0 | 2 | --offset needs --queue
groups reset g orders --at soon | 2 | --at is 'soon'; allowed: epoch milliseconds, or
groups reset g '' | 1 | TOPIC is ''; allowed: 1 to 127
message '' | 1 | ID is ''; allowed: text of 1 to 255 characters
message nosuch | 4 | no message has the id 'nosuch'
delayed ls --level 0 | 1 | --level is 0; allowed: a whole number from 1 to 1024
delayed ls --max 5000 | 1 | --max is 5000; allowed: a whole number from 1 to 1000
delayed ls --after x | 2 | --after: 'x' is not a whole number
delayed cancel '' | 1 | ID is ''; allowed: text of 1 to 255 characters
transactions commit '' | 1 | ID is ''; allowed: text of 1 to 255 characters
transactions ls --topic 'a b' | 1 | --topic is 'a b'; allowed: 1 to 127
topics create '' | 1 | NAME is ''; allowed: 1 to 127
topics create t --queues 0 | 1 | --queues is 0; allowed: a whole number from 1 to 1024
groups delete '' | 1 | NAME is ''; allowed: 1 to 255
client '' --group g | 1 | CLIENT_ID is ''; allowed: text of 1 to 1024 characters
client me@1 --group g --consume '' | 1 | --consume is ''; allowed: text of 1 to 255 characters
client me@1 --group '' | 1 | --group is ''; allowed: 1 to 255
reset --topic '' | 1 | --topic is ''; allowed: 1 to 127
faults add late by=5 | 1 | by is 5; allowed: a duration such as 2s; uniform(1s, 5s)
brokers crash broker-a --loses all | 2 | --loses is 'all'; allowed: nothing, unreplicated, or a duration

clock advance 30 | 2 | DURATION is '30'; allowed: a duration such as 200ms
clock advance -5s | 2 | DURATION is '-5s'; allowed: a duration such as 200ms
clock advance 1h1h | 1 | DURATION is '1h1h'; allowed: a duration such as 200ms
clock to 2030-01-01 | 2 | INSTANT is '2030-01-01'; allowed: epoch milliseconds, or an instant with
clock to -5 | 2 | INSTANT is '-5'; allowed: epoch milliseconds
clock to 999999999999999 | 1 | INSTANT is '999999999999999'; allowed: an instant from 1970-01-01T00:00:00.000Z
clock to 5 | 1 | Z, and 1970-01-01T00:00:00.005Z is

levels --url localhost | 2 | --url is 'localhost'; allowed: an address such as http://127.0.0.1:9877
levels --url http://127.0.0.1:99999 | 2 | --url is 'http://127.0.0.1:99999'; allowed: an address such as
levels --url http://root:pass/word@127.0.0.1 | 2 | --url is hidden; allowed: an address such as
levels --url http://root:word@127.0.0.1 --token t | 2 | token and the user in the url are both given
levels --token ä | 2 | --token is hidden; allowed: printable ASCII characters
no-such-command | 2 | No such command 'no-such-command'
topic | 2 | No such command 'topic'. Did you mean 'topics'?
story | 2 | No such command 'story': 'mocketmq message ID' shows the history of a message
"""
"""Command lines with their exit codes and a part of their error messages."""


async def test_an_error_quotes_the_users_input() -> None:
    async with forked_broker("--clock", "manual", "--max-message-bytes", "16") as process:
        shell = Shell(process.url)
        await shell("topics", "create", "orders")
        for line in filter(None, ERRORS.splitlines()):
            command, code, sentence = line.split(" | ")
            ended = await shell(*shlex.split(command))
            assert (ended.code, ended.stdout) == (int(code), ""), command
            assert sentence in ended.stderr, command


async def test_invalid_variable_is_named() -> None:
    ended = await Shell("localhost")("levels")
    assert (ended.code, ended.stderr.partition(";")[0]) == (2, "Error: MOCKETMQ_URL is 'localhost'")


async def test_variable_without_effect_logs_a_warning() -> None:
    async with forked_broker() as process:
        ended = await Shell(process.url, MOCKETMQ_TOKN="x", MOCKETMQ_CLOCK="real")("topics", "--json")
    assert ended.code == 0
    assert ended.stderr == "Warning: the variable MOCKETMQ_TOKN has no effect; did you mean MOCKETMQ_TOKEN?\n"


async def test_a_broker_warns_of_unknown_variables_and_starts() -> None:
    async with forked_broker(env={"MOCKETMQ_CLOK": "manual"}) as process:
        process.terminate()
        await process.wait()
    assert "the variable MOCKETMQ_CLOK has no effect; did you mean MOCKETMQ_CLOCK?" in process.stderr


@pytest.mark.parametrize(
    ("level", "note"),
    [
        ("99", "Note: --level 99 counts as 18, the highest level\n"),
        ("-1", "Note: --level -1 counts as 0, no delay\n"),
        ("18", ""),
        ("0", ""),
    ],
)
async def test_a_level_shows_its_clamped_value(level: str, note: str) -> None:
    async with forked_broker("--clock", "manual") as process:
        shell = Shell(process.url)
        ended = await shell("send", "orders", "x", "--level", level, "--json")
        assert (ended.code, ended.stderr) == (0, note)
        if level == "99":
            ended = await shell("delayed", "ls", "--level", level)
            assert ended.stdout == "nothing is pending: the broker has levels 1 to 18\n"
