/**
 * A plugin of dsh that resumes a stored session and sends it a prompt. What became of it goes into the file `done`:
 * an empty text, or the error.
 *
 *     - insert:
 *         - id: resume
 *           name: /absolute/path/of/resume.mjs
 *           config: { session: ID, prompt: TEXT, done: FILE }
 */
import { renameSync, writeFileSync } from 'node:fs'

const agentOptions = { provider: 'deepseek-official', model: 'deepseek-v4-flash' }

export const name = 'resume'
export const inject = ['agents']

export function apply(ctx, config) {
  resume(ctx.agents, config).then(() => '', (error) => String(error?.stack ?? error)).then((told) => {
    writeFileSync(`${config.done}.new`, told)
    renameSync(`${config.done}.new`, config.done)
  })
}

async function resume(agents, { session, prompt }) {
  await loaded(agents, session)
  const agent = agents.get(session)
  agent.followup({
    id: 'resumed-prompt',
    role: 'user',
    content: [{ type: 'text', text: prompt }],
    source: { kind: 'user' },
  })
  await agent.whenIdle()
}

/** Resume the session as soon as the loop that runs agents is there; plugins are loaded in no certain order. */
async function loaded(agents, resumeSessionId) {
  for (;;) {
    try {
      return await agents.resume({ resumeSessionId, agentOptions })
    } catch (error) {
      if (!String(error?.message).startsWith('no agent factory')) throw error
      await new Promise((again) => setTimeout(again, 20))
    }
  }
}
