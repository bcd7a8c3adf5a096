// The views, in the order of the navigation. The catalogue has their titles.

import { showClients } from "./clients.js";
import { showFaults } from "./faults.js";
import { showGroups } from "./groups.js";
import { showLateness } from "./lateness.js";
import { showLevels } from "./levels.js";
import { showMessages } from "./messages.js";
import { showSend } from "./send.js";
import { showStory } from "./story.js";
import { showTopics } from "./topics.js";

export const ROOMS = [
  { name: "story", show: showStory },
  { name: "levels", show: showLevels },
  { name: "messages", show: showMessages },
  { name: "send", show: showSend },
  { name: "topics", show: showTopics },
  { name: "groups", show: showGroups },
  { name: "clients", show: showClients },
  { name: "faults", show: showFaults },
  { name: "lateness", show: showLateness },
];
