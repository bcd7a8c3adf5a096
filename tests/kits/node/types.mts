// Compiled, not run: what the types allow and what they refuse.
import * as nodeTest from 'node:test';
import * as vitest from 'vitest';
import { BrokerError, start, stop, useMocketmq, type Message, type Mocketmq } from 'mocketmq';

useMocketmq(nodeTest);
useMocketmq({ beforeEach, afterEach }); // Jest's
useMocketmq(vitest, { clock: 'x10', levels: '1s 5s' });

export async function uses(): Promise<void> {
  const mq: Mocketmq = await start({ forget: true });
  const id: string = await mq.send('orders', new Uint8Array([1]), { tag: 'paid', keys: ['7'], delayMs: 1500 });
  const found: Message[] = await mq.expect('orders', 'sent', { messageId: id, count: 1 });
  await mq.await('orders', 'acknowledged', { group: 'billing', within: 100 });
  await mq.await('orders', 'dead');
  await mq.advance(1000);
  const year: number = (await mq.now()).getFullYear();
  const { fired, name } = await mq.faults.add({ do: 'refuse', error: 'SYSTEM_BUSY', next: year });
  await mq.faults.remove(name);
  for (const { name, state } of await mq.brokers()) if (state === 'running') await mq.cutOffBroker(name, 'clients');
  const { mode } = await mq.call<{ mode: string }>('GET', '/v1/clock');
  if (new Error() instanceof BrokerError) await stop();
  console.log(found[0]?.body?.length, fired, mode.length);

  // @ts-expect-error: which group has acknowledged?
  await mq.await('orders', 'acknowledged');
  // @ts-expect-error: no such stage
  await mq.expect('orders', 'received');
  // @ts-expect-error: no such option
  await mq.send('orders', 'order 7', { delay: 1 });
  // @ts-expect-error: no such fault
  await mq.faults.add({ do: 'explode' });
  // @ts-expect-error: no such side
  await mq.cutOffBroker('broker-a', 'disk');
  // @ts-expect-error: no such clock
  await start({ clock: 'fast' });
}
