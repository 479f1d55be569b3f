// Works only while its elector proves that this pod leads. Node.js 18 or newer, no packages.
import { appendFileSync, readFileSync } from 'node:fs'
import { get } from 'node:http'
import { createInterface } from 'node:readline'

const elector = process.env.ELECTOR ?? 'http://127.0.0.1:4040'
// Milliseconds. The elector sends a line each second: after this much silence the stream is dead.
const SILENCE = 3000
// Milliseconds. Electors and mains start in any order.
const REDIAL = 200
// Seconds: /proc/uptime is cut off after two digits.
const RESOLUTION = 0.01

let newest = {}

// The clock that validUntil counts, at most 10 ms ahead. performance.now() stops while the machine
// is suspended: a lead would seem to last longer than it is proven.
function boottime() {
  return Number.parseFloat(readFileSync('/proc/uptime', 'ascii')) + RESOLUTION
}

// The fencing token while the lead is proven, else undefined.
function token() {
  const { isLeader, validUntil, fencingToken } = newest
  const isProven = isLeader === true && typeof validUntil === 'number' && boottime() < validUntil
  return isProven && Number.isInteger(fencingToken) ? fencingToken : undefined
}

// The last proof ends by itself, at validUntil, whatever becomes of the connection.
function follow() {
  const request = get(`${elector}/leader?watch=true`, { timeout: SILENCE }, (response) => {
    createInterface({ input: response }).on('line', (line) => {
      try {
        newest = JSON.parse(line) ?? {}
      } catch (error) {
        request.destroy(error)
      }
    }).on('error', () => {})
    response.on('error', () => {})
  })
  request.on('timeout', () => request.destroy())
  request.on('error', () => {})
  request.on('close', () => setTimeout(follow, REDIAL))
}

// SIGTERM: the process that is PID 1 of a container has no default.
process.on('SIGTERM', () => process.exit(0))
follow()
setInterval(() => {
  const leads = token()
  if (leads !== undefined) appendFileSync(process.env.LEDGER, `${leads}\n`) // one unit of work
}, 50)
