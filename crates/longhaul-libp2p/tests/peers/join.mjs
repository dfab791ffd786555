// An agent that joins a network with js-libp2p, as somebody would write it from docs/libp2p.md. The tests start it, in
// the folder that holds its modules:
//   node --input-type=module -e "$(cat join.mjs)" -- ADDRESS AGENT COUNT
// It says {"ready":true} on standard output once it listens to the gossip of "general", waits for COUNT posts there and
// as many events on its stream, posts COUNT itself, and ends with one line that says what it saw.
import { createLibp2p } from 'libp2p'
import { tcp } from '@libp2p/tcp'
import { noise } from '@libp2p/noise'
import { yamux } from '@libp2p/yamux'
import { identify } from '@libp2p/identify'
import { ping } from '@libp2p/ping'
import { gossipsub } from '@libp2p/gossipsub'
import { lpStream } from '@libp2p/utils'
import { multiaddr } from '@multiformats/multiaddr'

const [address, agent, countText] = process.argv.slice(-3)
const count = Number(countText)
const say = (line) => process.stdout.write(JSON.stringify(line) + '\n')
const transports = [tcp()]
if (address.includes('/quic-v1')) {
  transports.push((await import('@chainsafe/libp2p-quic')).quic())
}
const node = await createLibp2p({
  transports,
  connectionEncrypters: [noise()],
  streamMuxers: [yamux()],
  services: { identify: identify(), ping: ping(), pubsub: gossipsub({ allowPublishToZeroTopicPeers: false }) }
})
const seen = {}
node.addEventListener('peer:identify', ({ detail }) => {
  seen.agentVersion = detail.agentVersion
  seen.protocols = detail.protocols
})
const server = multiaddr(address)
const connection = await node.dial(server)
seen.ping = await node.services.ping.ping(server)

// The event stream: frames of JSON, each behind its length as a varint.
const stream = lpStream(await node.dialProtocol(server, '/longhaul/events/1.0.0'), { maxDataLength: 4 * 1024 * 1024 })
const waiting = new Map()
const pushed = []
let onPushed = () => {}
const reading = (async () => {
  while (true) {
    let frame
    try {
      frame = JSON.parse(new TextDecoder().decode((await stream.read()).subarray()))
    } catch {
      return
    }
    if (frame.type === 'event') {
      pushed.push(frame)
      await stream.write(new TextEncoder().encode(JSON.stringify({ type: 'ack', seq: frame.seq })))
      onPushed()
    } else {
      waiting.get(frame.request_id)?.(frame)
    }
  }
})()
let requests = 0
const ask = async (frame) => {
  const id = String(++requests)
  const answer = new Promise((resolve) => waiting.set(id, resolve))
  await stream.write(new TextEncoder().encode(JSON.stringify({ ...frame, request_id: id })))
  return await answer
}
const registered = await ask({ type: 'register', agent_id: agent, metadata: { name: 'a peer in JavaScript' } })
if (registered.type !== 'registered') throw new Error(JSON.stringify(registered))
const joined = await ask({
  type: 'send',
  event: {
    event_id: `${agent}-joins`,
    event_name: 'system.add_channel_member',
    destination_id: 'system:system',
    payload: { channel_id: 'general', agent_id: agent }
  }
})
if (!joined.success) throw new Error(JSON.stringify(joined))

// Gossip. What the node signed is the log's; what this agent said itself comes back and is passed over.
const { topic } = await ask({ type: 'topic', channel: 'general' })
const gossiped = []
let onGossip = () => {}
node.services.pubsub.addEventListener('gossipsub:message', ({ detail }) => {
  const { msg } = detail
  if (msg.topic !== topic || msg.from?.toString() !== connection.remotePeer.toString()) return
  const { event } = JSON.parse(new TextDecoder().decode(msg.data))
  if (event.source_id === agent) return
  gossiped.push(event)
  onGossip()
})
node.services.pubsub.subscribe(topic)
while (node.services.pubsub.getSubscribers(topic).length === 0) await new Promise((resolve) => setTimeout(resolve, 10))
await ask({ type: 'receive' })
// A ping is answered after what came before it: the subscription is known now.
await node.services.ping.ping(server)
say({ ready: true })

const until = async (enough, hook) => { while (!enough()) await new Promise((resolve) => hook(resolve)) }
await until(() => gossiped.length >= count, (resolve) => { onGossip = resolve })
await until(() => pushed.length >= count, (resolve) => { onPushed = resolve })
for (let number = 0; number < count; number++) {
  const event = {
    event_id: `${agent}-post-${number}`,
    event_name: 'thread.channel_message.post',
    payload: { channel: 'general', content: { text: `post ${number}` }, number }
  }
  await node.services.pubsub.publish(topic, new TextEncoder().encode(JSON.stringify(event)))
}
const direct = {
  type: 'send',
  event: { event_id: `${agent}-direct`, event_name: 'agent.message', destination_id: 'agent:ear', payload: { done: true } }
}
const first = await ask(direct)
const second = await ask(direct)
const spoofed = await ask({ ...direct, event: { ...direct.event, event_id: 'x', source_id: 'ear' } })
const numbers = (events) => events.map((event) => event.payload.number)
const inOrder = (list) => list.every((number, at) => number === at)
const result = {
  agent_version: seen.agentVersion,
  speaks_events: (seen.protocols ?? []).includes('/longhaul/events/1.0.0'),
  pinged: seen.ping >= 0,
  gossiped: new Set(numbers(gossiped)).size,
  gossip_twice: gossiped.length - new Set(numbers(gossiped)).size,
  pushed: pushed.length,
  pushed_in_order: inOrder(numbers(pushed.map((frame) => frame.event))),
  sent: first.success && !first.repeated,
  repeated: second.success && second.repeated,
  spoof: spoofed.code
}
// Its gossip is on the way; the test says when it has come.
await new Promise((resolve) => process.stdin.once('data', resolve))
const left = await ask({ type: 'unregister' })
say({ ...result, left: left.type === 'unregistered' })
await node.stop()
await reading
process.exit(0)
